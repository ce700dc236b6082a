/**
 * Instantiate WebAssembly modules in Node.js and browsers, and link them with each other and with JavaScript functions.
 * The order of instantiation and the errors are those of `funcnet.export.host.link` in Python.
 *
 *     import { hostFunction, link } from "./link.js";
 *     const linked = await link(
 *       { code: fetch("code.wasm"), weights: fetch("weights.wasm") },
 *       { env: { scale: hostFunction(["f32"], ["f32"], (x) => 10 * x) } },
 *     );
 *     linked.code.weight(1);
 *     new Float32Array(linked.weights.memory.buffer, 0, 2);
 *
 * JavaScript does not report the types of imports and exports, so they are read from the bytes of the modules.
 * `link` cannot limit the time. To stop code after some time, run it in a Worker, and terminate the Worker.
 */

const PAGE = 65536; // bytes
const SHOWN = 8; // how many names an error lists
const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];
const [CUSTOM, TYPES, IMPORTS, FUNCTIONS, TABLES, MEMORIES, GLOBALS, EXPORTS, START] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const CODE = 10;
const [GLOBAL_GET, REF_FUNC] = [0x23, 0xd2];
const KINDS = ["function", "table", "memory", "global"];
const VALUE_TYPES = new Map([
  [0x7f, "i32"],
  [0x7e, "i64"],
  [0x7d, "f32"],
  [0x7c, "f64"],
  [0x7b, "v128"],
  [0x70, "funcref"],
  [0x6f, "externref"],
]);
const HOST_TYPES = [...VALUE_TYPES.values()].filter((one) => one !== "v128").sort(); // no host has values of v128
const STATE = "(state)";

const quoted = (names) => `[${names.map((one) => `'${one}'`).join(", ")}]`;

/** Thrown if modules cannot be linked. The message has a line for each problem. */
export class LinkError extends Error {
  constructor(...problems) {
    super(problems.join("\n"));
    this.name = "LinkError";
    this.problems = problems;
  }
}

// ---------------------------------------------------------------------------------------------- items of the host

/**
 * Return an item for a JavaScript function with its signature, such as `hostFunction(["i32"], ["f32"], f)`.
 * With `{ linked: true }`, the first argument of the function is the object that `link` returns.
 */
export function hostFunction(params, results, call, { linked = false } = {}) {
  for (const one of [...params, ...results]) {
    if (!HOST_TYPES.includes(one)) {
      const known = quoted(HOST_TYPES);
      throw new RangeError(`function: a value type does not exist; expected one of ${known}, got '${one}'.`);
    }
  }
  return { type: { kind: "function", params: [...params], results: [...results] }, call, linked };
}

/** Return an item for a memory that the host creates, filled with zeros. Sizes are in pages of 64 KiB. */
export function hostMemory(minimum, maximum = null) {
  return { type: { kind: "memory", minimum, maximum, shared: false, address: "i32" } };
}

/** Return an item for a table that the host creates, filled with null. */
export function hostTable(minimum, maximum = null, element = "funcref") {
  return { type: { kind: "table", element, minimum, maximum, address: "i32" } };
}

/** Return an item for a global that the host creates. `first` is its initial value. */
export function hostGlobal(value, first = null, { mutable = false } = {}) {
  return { type: { kind: "global", value, mutable }, first };
}

// ------------------------------------------------------------------------------------------------------------- types

/** Return the text of a type in errors. */
export function typeText(type) {
  const wide = type.address === "i64" ? "64-bit " : "";
  const span = type.maximum === null ? `${type.minimum} or more` : `${type.minimum} to ${type.maximum}`;
  if (type.kind === "function") return `function (${type.params.join(", ")}) -> (${type.results.join(", ")})`;
  if (type.kind === "memory") return `${type.shared ? "shared " : ""}${wide}memory with ${span} pages`;
  if (type.kind === "table") return `${wide}table with ${span} ${type.element} elements`;
  return `${type.mutable ? "mutable " : ""}global ${type.value}`;
}

function mismatch(expected, found) {
  if (expected.kind !== found.kind) return `a ${found.kind} stands where a ${expected.kind} is imported`;
  if (expected.kind === "function") {
    if (expected.params.join() !== found.params.join()) return "the parameters differ";
    return expected.results.join() === found.results.join() ? null : "the results differ";
  }
  if (expected.kind === "global") {
    if (expected.value !== found.value) return "the types of the values differ";
    return expected.mutable === found.mutable ? null : "the mutability differs";
  }
  if (expected.element !== found.element) return "the types of the elements differ";
  if (expected.address !== found.address) return `the ${found.kind}'s addresses have another width`;
  if (expected.shared !== found.shared) return "only one of the two memories is shared";
  if (found.minimum < expected.minimum) return `the ${found.kind} is too small`;
  if (expected.maximum !== null) {
    if (found.maximum === null) return `the ${found.kind} has no maximum`;
    if (found.maximum > expected.maximum) return `the ${found.kind}'s maximum is too large`;
  }
  return null;
}

// ------------------------------------------------------------------------------------------------------------ reading

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
const code = (byte) => `0x${byte.toString(16).padStart(2, "0")}`;

/** A reader of the bytes from `at` to `end`, which throws a LinkError if they end too early. */
class Reader {
  constructor(data, at, end, name) {
    Object.assign(this, { data, at, end, name });
  }

  error(problem) {
    return new LinkError(`module '${this.name}': ${problem}.`);
  }

  skip(size) {
    this.at += size;
    if (this.at > this.end) {
      const part = this.end === this.data.length ? "module is truncated" : "section is too short";
      throw this.error(`the ${part}; expected ${this.at} bytes or more, got ${this.end}`);
    }
  }

  take(size) {
    this.skip(size);
    return this.data.subarray(this.at - size, this.at);
  }

  byte() {
    return this.take(1)[0];
  }

  leb() {
    const start = this.at;
    while (this.byte() & 0x80);
    if (this.at - start > 10) {
      const found = `expected 10 bytes at most, got ${this.at - start}`;
      throw this.error(`the number at byte ${start} is too long; ${found}`);
    }
    return this.data.subarray(start, this.at);
  }

  number() {
    return this.leb().reduceRight((value, byte) => value * 128 + (byte & 0x7f), 0);
  }

  text() {
    return new TextDecoder().decode(this.take(this.number()));
  }

  known(what, values) {
    const at = this.at;
    const value = this.byte();
    if (!values.has(value)) {
      const known = [...values.keys()].map(code).join(", ");
      throw this.error(`the ${what} at byte ${at} is not known; expected one of ${known}, got ${code(value)}`);
    }
    return values.get(value);
  }

  valueType() {
    return this.known("value type", VALUE_TYPES);
  }

  within(count) {
    const at = this.at;
    const index = this.number();
    if (index >= count) {
      throw this.error(`the index at byte ${at} is out of range; expected less than ${count}, got ${index}`);
    }
    return index;
  }

  several(form) {
    const found = [];
    for (let left = this.number(); left > 0; left -= 1) found.push(form());
    return found;
  }

  functionType() {
    this.known("form of a type", new Map([[0x60, "function"]]));
    const params = this.several(() => this.valueType());
    return { kind: "function", params, results: this.several(() => this.valueType()) };
  }

  limits() {
    const at = this.at;
    const flags = this.byte();
    if (flags > 7) {
      throw this.error(`the limits at byte ${at} have a form that is not known; expected 0 to 7, got ${flags}`);
    }
    const minimum = this.number();
    const maximum = flags & 1 ? this.number() : null;
    return { minimum, maximum, shared: Boolean(flags & 2), address: flags & 4 ? "i64" : "i32" };
  }

  memory() {
    return { kind: "memory", ...this.limits() };
  }

  table() {
    const element = this.valueType();
    const { minimum, maximum, address } = this.limits();
    return { kind: "table", element, minimum, maximum, address };
  }

  definedTable() {
    if (this.data[this.at] !== 0x40) return { type: this.table(), start: null };
    this.skip(2);
    return { type: this.table(), start: this.expression() };
  }

  globalType() {
    return { kind: "global", value: this.valueType(), mutable: Boolean(this.byte()) };
  }

  kind() {
    return this.known("kind of an import or export", new Map(KINDS.entries()));
  }

  imported(types) {
    const [module, name, kind] = [this.text(), this.text(), this.kind()];
    const forms = { table: () => this.table(), memory: () => this.memory(), global: () => this.globalType() };
    return { module, name, type: kind === "function" ? types[this.within(types.length)] : forms[kind]() };
  }

  exported(spaces) {
    const [name, kind] = [this.text(), this.kind()];
    const index = this.within(spaces[kind].length);
    return { name, kind, index, type: spaces[kind][index] };
  }

  /** Read a constant expression: [opcode, operand] for each instruction. The operand of global.get is an index. */
  expression() {
    const found = [];
    const fixed = new Map([[0x43, 4], [0x44, 8], ...[0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e].map((one) => [one, 0])]);
    for (let opcode = this.byte(); opcode !== 0x0b; opcode = this.byte()) {
      const at = this.at - 1;
      if ([0x41, 0x42, 0xd0, REF_FUNC].includes(opcode)) found.push([opcode, [...this.leb()]]);
      else if (opcode === GLOBAL_GET) found.push([opcode, this.number()]);
      else if (opcode === 0xfd) found.push([opcode, [...this.leb(), ...this.take(16)]]);
      else if (fixed.has(opcode)) found.push([opcode, [...this.take(fixed.get(opcode))]]);
      else {
        const problem = `the constant expression at byte ${at} has an instruction that is not known`;
        throw this.error(`${problem}; expected a constant, got ${code(opcode)}`);
      }
    }
    return found;
  }
}

/** Read a module: its sections, imports, exports and definitions, with types. */
export function read(source, name = "module") {
  if (!(source instanceof ArrayBuffer || ArrayBuffer.isView(source))) {
    throw new TypeError(`module '${name}': the source is wrong; expected bytes, got ${typeof source}.`);
  }
  const view = source instanceof ArrayBuffer ? [source] : [source.buffer, source.byteOffset, source.byteLength];
  const data = new Uint8Array(...view);
  if (HEADER.some((byte, i) => data[i] !== byte)) {
    const found = `expected it to begin with ${hex(HEADER)}, got ${hex(data.subarray(0, 8)) || "nothing"}`;
    throw new LinkError(`module '${name}': this is not a WebAssembly module; ${found}.`);
  }
  const reader = new Reader(data, 8, data.length, name);
  const sections = [];
  while (reader.at < data.length) {
    const [number, size] = [reader.byte(), reader.number()];
    sections.push({ number, start: reader.at, end: reader.at + size });
    reader.skip(size);
  }
  return parse(data, sections, name);
}

function parse(data, sections, name) {
  const each = (number, form) => {
    const found = sections.findLast((section) => section.number === number);
    if (!found) return [];
    const reader = new Reader(data, found.start, found.end, name);
    return reader.several(() => form(reader));
  };
  const types = each(TYPES, (reader) => reader.functionType());
  const imports = each(IMPORTS, (reader) => reader.imported(types));
  const functions = each(FUNCTIONS, (reader) => types[reader.within(types.length)]);
  const tables = each(TABLES, (reader) => reader.definedTable());
  const memories = each(MEMORIES, (reader) => reader.memory());
  const globals = each(GLOBALS, (reader) => ({ type: reader.globalType(), start: reader.expression() }));
  const typesOf = (list) => list.map(({ type }) => type);
  const defined = { function: functions, table: typesOf(tables), memory: memories, global: typesOf(globals) };
  const imported = (kind) => imports.filter(({ type }) => type.kind === kind);
  const spaces = Object.fromEntries(KINDS.map((kind) => [kind, [...typesOf(imported(kind)), ...defined[kind]]]));
  const exports = new Map(each(EXPORTS, (reader) => reader.exported(spaces)).map((one) => [one.name, one]));
  const filled = tables.some(({ start }) => start !== null);
  return { data, sections, imports, imported, exports, defined, starts: globals.map(({ start }) => start), filled };
}

// ---------------------------------------------------------------------------------------------------------- rewriting

function leb(value) {
  const out = [];
  for (; value > 0x7f; value = Math.floor(value / 128)) out.push((value % 128) | 0x80);
  return [...out, value];
}

function signed(value) {
  const out = [];
  for (; value > 0x3f; value = Math.floor(value / 128)) out.push((value % 128) | 0x80);
  return [...out, value];
}

function text(value) {
  const bytes = new TextEncoder().encode(value);
  return [...leb(bytes.length), ...bytes];
}

const vector = (items) => [...leb(items.length), ...items.flat()];
const raw = (number, content) => [Uint8Array.from([number, ...leb(content.length)]), Uint8Array.from(content)];
const section = (number, items) => (items.length ? raw(number, vector(items)) : []);
const codeOf = (value) => [...VALUE_TYPES].find(([, name]) => name === value)[0];

function joined(parts) {
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, HEADER.length));
  out.set(HEADER);
  let at = HEADER.length;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function typeBytes(type) {
  if (type.kind === "function") {
    const codes = (values) => vector(values.map((one) => [codeOf(one)]));
    return [0x60, ...codes(type.params), ...codes(type.results)];
  }
  if (type.kind === "global") return [codeOf(type.value), Number(type.mutable)];
  const flags = (type.maximum === null ? 0 : 1) + (type.shared ? 2 : 0) + (type.address === "i64" ? 4 : 0);
  const limits = [flags, ...leb(type.minimum), ...(type.maximum === null ? [] : leb(type.maximum))];
  return type.kind === "table" ? [codeOf(type.element), ...limits] : limits;
}

const importBytes = ({ module, name, type }) => [
  ...text(module),
  ...text(name),
  KINDS.indexOf(type.kind),
  ...typeBytes(type),
];

/** Return the module without the sections in `dropped`, and with `first` before the first section after the types. */
function replaced(module, dropped, first) {
  const parts = [];
  let done = false;
  for (const { number, start, end } of module.sections) {
    if (!done && number !== CUSTOM && number !== TYPES) {
      parts.push(...first);
      done = true;
    }
    if (!dropped.includes(number)) {
      parts.push(Uint8Array.from([number, ...leb(end - start)]), module.data.subarray(start, end));
    }
  }
  return joined(done ? parts : [...parts, ...first]);
}

/** Return the module with memories that cannot grow beyond the limit. */
function limited(module, pages) {
  if (!module.defined.memory.length) return module;
  const smaller = (type) => ({ ...type, maximum: Math.min(type.maximum ?? pages, pages) });
  const unfit = ({ shared, maximum }) => shared && maximum === null; // not valid: the engine will report it
  const memories = module.defined.memory.map((type) => (unfit(type) ? type : smaller(type)));
  const parts = module.sections.flatMap(({ number, start, end }) =>
    number === MEMORIES
      ? section(MEMORIES, memories.map(typeBytes))
      : [Uint8Array.from([number, ...leb(end - start)]), module.data.subarray(start, end)],
  );
  return read(joined(parts));
}

/** Split a module in two. The first defines its memories, tables and globals, the second imports them. */
function split(module, name) {
  const inCircle = `module '${name}': it is part of a circle of imports, and one of its`;
  if (module.starts.some((start) => start.some(([opcode]) => opcode === REF_FUNC))) {
    const found = "expected a constant or another global, got ref.func";
    throw new LinkError(`${inCircle} globals starts as a reference to a function; ${found}.`);
  }
  if (module.filled) {
    throw new LinkError(`${inCircle} tables has a first value; expected a table of null, got an expression.`);
  }
  const imported = module.imported("global");
  const read = module.starts.flat().filter(([opcode]) => opcode === GLOBAL_GET).map(([, index]) => index);
  const used = imported.map((_, index) => index).filter((index) => read.includes(index));
  const places = new Map(used.map((index, place) => [index, place]));
  module.starts.forEach((_, i) => places.set(imported.length + i, used.length + i));
  const needed = used.map((index) => imported[index]);
  const held = ["table", "memory", "global"].flatMap((kind) =>
    module.defined[kind].map((type, i) => ({ kind, i, key: `${kind} ${module.imported(kind).length + i}`, type })),
  );
  const starts = module.starts.map((start) => [
    ...start.flatMap(([opcode, operand]) => [opcode, ...(opcode === GLOBAL_GET ? leb(places.get(operand)) : operand)]),
    0x0b,
  ]);
  const place = ({ kind, i }) => leb(i + (kind === "global" ? used.length : 0));
  const state = joined([
    ...section(IMPORTS, needed.map(importBytes)),
    ...section(TABLES, module.defined.table.map(typeBytes)),
    ...section(MEMORIES, module.defined.memory.map(typeBytes)),
    ...section(GLOBALS, module.defined.global.map((type, i) => [...typeBytes(type), ...starts[i]])),
    ...section(EXPORTS, held.map((one) => [...text(one.key), KINDS.indexOf(one.kind), ...place(one)])),
  ]);
  const all = [...module.imports, ...held.map(({ key, type }) => ({ module: STATE, name: key, type }))];
  return { state, needed, code: replaced(module, [IMPORTS, TABLES, MEMORIES, GLOBALS], importSection(module, all)) };
}

/** Return the section of all imports. It keeps the bytes of the module's imports, whose functions have type indices. */
function importSection(module, all) {
  const old = module.sections.find(({ number }) => number === IMPORTS);
  const bytes = old ? module.data.subarray(old.start, old.end) : Uint8Array.of(0);
  const count = bytes.findIndex((byte) => byte < 0x80) + 1; // a count may have more bytes than it needs
  const added = all.slice(module.imports.length).flatMap(importBytes);
  return raw(IMPORTS, [...leb(all.length), ...bytes.subarray(count), ...added]);
}

/** Write a module of functions, each of which calls the entry of a table at the function's index. */
function trampolines(functions) {
  const bodies = functions.map(({ type }, i) => {
    const gets = type.params.flatMap((_, k) => [0x20, ...leb(k)]);
    const body = [0, ...gets, 0x41, ...signed(i), 0x11, ...leb(i), 0, 0x0b];
    return [...leb(body.length), ...body];
  });
  const names = vector(functions.map(({ name }, i) => [...leb(i), ...text(name)]));
  const table = { kind: "table", element: "funcref", minimum: functions.length, maximum: functions.length };
  return joined([
    ...section(TYPES, functions.map(({ type }) => typeBytes(type))),
    ...section(FUNCTIONS, functions.map((_, i) => leb(i))),
    ...section(TABLES, [typeBytes(table)]),
    ...section(EXPORTS, [[...text("table"), 1, 0], ...functions.map((_, i) => [...text(String(i)), 0, ...leb(i)])]),
    ...section(CODE, bodies),
    ...raw(CUSTOM, [...text("name"), 1, ...leb(names.length), ...names]),
  ]);
}

// ----------------------------------------------------------------------------------------------------------- planning

const importError = (name, one, problem) => `module '${name}', import '${one.module}'.'${one.name}': ${problem}.`;

function list(names) {
  const quoted = names.map((name) => `'${name}'`);
  const more = quoted.length > SHOWN ? ` and ${quoted.length - SHOWN} more` : "";
  return quoted.length ? quoted.slice(0, SHOWN).join(", ") + more : "none";
}

/** Return the source of an import, or the problem as text if no module defines the import. */
function sourceOf(modules, hosts, one) {
  const expected = typeText(one.type);
  const seen = [one];
  for (;;) {
    const { module, name } = seen.at(-1);
    if (!modules.has(module) && !hosts.has(module)) {
      const names = list([...modules.keys(), ...hosts.keys()]);
      return `there is no module '${module}'; expected ${expected}, got the modules ${names}`;
    }
    const exports = modules.has(module) ? modules.get(module).exports : hosts.get(module);
    if (!exports.has(name)) {
      const names = list([...exports.keys()]);
      return `module '${module}' has no export '${name}'; expected ${expected}, got the exports ${names}`;
    }
    const { kind, index } = exports.get(name);
    const imported = modules.has(module) ? modules.get(module).imported(kind) : [];
    if (!modules.has(module) || index >= imported.length) return { module, name, type: exports.get(name).type };
    const further = imported[index];
    if (seen.some((other) => other.module === further.module && other.name === further.name)) {
      const circle = seen.map((other) => `'${other.module}'.'${other.name}'`).join(", ");
      const problem = "modules import it from each other and none defines it";
      return `${problem}; expected ${expected}, got the circle ${circle}`;
    }
    seen.push(further);
  }
}

/** Why no engine can make an item of the host, or undefined. */
function impossible({ type }) {
  const known = type.kind === "table" ? ["externref", "funcref"] : HOST_TYPES;
  const kinds = [type.params ?? [], type.results ?? [], type.element ?? [], type.value ?? []].flat();
  const wrong = kinds.find((one) => !known.includes(one));
  if (wrong !== undefined) return `a value type does not exist; expected one of ${quoted(known)}, got '${wrong}'`;
  if (!("minimum" in type)) return undefined;
  const [most, what] = type.kind === "memory" ? [65536, "pages"] : [4294967295, "elements"];
  const sizes = [0, type.minimum, type.maximum ?? most, most];
  if (sizes.every((size, i) => Number.isInteger(size) && (i === 0 || sizes[i - 1] <= size))) return undefined;
  return `the limits are wrong; expected whole numbers in order, up to ${most} ${what}, got ${typeText(type)}`;
}

function tooLarge(modules, hosts, memory) {
  if (memory === null) return [];
  const over = ({ type }) => type.kind === "memory" && type.minimum * PAGE > memory;
  const found = ({ type }) => `expected at most ${memory} bytes, got ${type.minimum * PAGE}`;
  const problems = [];
  for (const [name, module] of modules) {
    for (const one of module.defined.memory.map((type) => ({ type })).filter(over)) {
      problems.push(`module '${name}': a memory exceeds the limit; ${found(one)}.`);
    }
  }
  for (const [name, items] of hosts) {
    for (const [key, item] of items) {
      if (over(item)) problems.push(`host module '${name}', memory '${key}': it exceeds the limit; ${found(item)}.`);
    }
  }
  return problems;
}

/** Return {name: [source of each import]}. Throw a LinkError if an import is missing or does not fit. */
function resolved(modules, hosts, memory) {
  const problems = [...modules.keys()]
    .filter((name) => hosts.has(name))
    .map((name) => `module '${name}': the host and a module have this name; expected different names, got one twice.`);
  const wrong = [...hosts].flatMap(([name, items]) =>
    [...items]
      .map(([key, item]) => [`host module '${name}', ${item.type.kind} '${key}'`, impossible(item)])
      .filter(([, problem]) => problem)
      .map(([where, problem]) => `${where}: ${problem}.`),
  );
  if (wrong.length) throw new LinkError(...problems, ...wrong);
  problems.push(...tooLarge(modules, hosts, memory));
  const grows = [...modules.values()].some(({ sections }) => sections.some(({ number }) => number === START));
  const sources = new Map();
  for (const [name, module] of modules) {
    const found = module.imports.map((one) => {
      const source = sourceOf(modules, hosts, one);
      if (typeof source === "string") {
        problems.push(importError(name, one, source));
        return source;
      }
      let { type } = source;
      if (grows && "minimum" in type && "minimum" in one.type) {
        // A start function may grow the memory or table. Its size is compared again once it exists.
        type = { ...type, minimum: Math.max(type.minimum, one.type.minimum) };
      }
      const problem = mismatch(one.type, type);
      if (problem) {
        problems.push(importError(name, one, `${problem}; expected ${typeText(one.type)}, got ${typeText(type)}`));
      }
      return source;
    });
    sources.set(name, found);
  }
  if (problems.length) throw new LinkError(...problems);
  return sources;
}

/** Return the groups of names that need each other (Tarjan's algorithm). A group comes after the groups it needs. */
function components(names, needs) {
  const [found, numbers, lowest, stack] = [[], new Map(), new Map(), []];
  const visit = (name) => {
    lowest.set(name, numbers.size);
    numbers.set(name, numbers.size);
    stack.push(name);
    for (const other of needs.get(name)) {
      if (!names.includes(other)) continue;
      if (!numbers.has(other)) {
        visit(other);
        lowest.set(name, Math.min(lowest.get(name), lowest.get(other)));
      } else if (stack.includes(other)) lowest.set(name, Math.min(lowest.get(name), numbers.get(other)));
    }
    if (lowest.get(name) === numbers.get(name)) {
      const group = stack.splice(stack.indexOf(name));
      found.push(group.sort((a, b) => names.indexOf(a) - names.indexOf(b)));
    }
  };
  for (const name of names) if (!numbers.has(name)) visit(name);
  return found;
}

function ordered(modules, sources) {
  const needs = (counts) => {
    const of = (name, module) => sources.get(name).filter((_, i) => counts(module.imports[i])).map((one) => one.module);
    return new Map([...modules].map(([name, module]) => [name, of(name, module)]));
  };
  const state = needs(({ type }) => type.kind !== "function");
  return components([...modules.keys()], needs(() => true))
    .flatMap((around) => components(around, state))
    .map((names) => ({ names, circular: names.length > 1 || state.get(names[0]).includes(names[0]) }));
}

// ------------------------------------------------------------------------------------------------------------ linking

/** Instantiate a module, and return its exports. */
async function instance(name, bytes, imports) {
  try {
    const module = await WebAssembly.compile(bytes);
    return (await WebAssembly.instantiate(module, imports)).exports;
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) {
      throw new WebAssembly.RuntimeError(`module '${name}', when it starts: ${error.message}.`, { cause: error });
    }
    if ([WebAssembly.CompileError, WebAssembly.LinkError, RangeError].some((kind) => error instanceof kind)) {
      throw new LinkError(`module '${name}': the engine refuses it: ${error.message}.`);
    }
    throw error;
  }
}

function made(item, linked, memory) {
  const { type } = item;
  const named = (value) => (value === "funcref" ? "anyfunc" : value); // JavaScript's name for it
  const range = (maximum) => ({ initial: type.minimum, ...(maximum === null ? {} : { maximum }) });
  if (type.kind === "function") return item.linked ? (...args) => item.call(linked, ...args) : item.call;
  if (type.kind === "memory") {
    const most = memory === null ? type.maximum : Math.min(type.maximum ?? 65536, Math.floor(memory / PAGE));
    return new WebAssembly.Memory(range(most));
  }
  if (type.kind === "table") {
    return new WebAssembly.Table({ element: named(type.element), ...range(type.maximum) }, null);
  }
  const first = type.value === "i64" ? BigInt(item.first) : item.first;
  return new WebAssembly.Global({ value: named(type.value), mutable: type.mutable }, first);
}

async function opened(sources, digests) {
  const [modules, problems] = [new Map(), []];
  for (const [name, promise] of Object.entries(sources)) {
    const source = await promise;
    const answer = typeof Response !== "undefined" && source instanceof Response;
    if (answer && !source.ok) {
      problems.push(`module '${name}': it was not sent; expected HTTP status 200, got ${source.status}.`);
      continue;
    }
    try {
      modules.set(name, read(answer ? await source.arrayBuffer() : source, name));
    } catch (error) {
      if (!(error instanceof LinkError)) throw error;
      problems.push(...error.problems);
    }
  }
  for (const [name, digest] of Object.entries(digests)) {
    if (!(name in sources)) {
      const names = list(Object.keys(sources));
      problems.push(`digest of '${name}': there is no module '${name}'; expected one of ${names}, got '${name}'.`);
    }
    if (!modules.has(name)) continue;
    const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", modules.get(name).data));
    const found = hex(bytes).replaceAll(" ", "");
    if (found !== digest.toLowerCase()) {
      problems.push(`module '${name}': it was altered; expected SHA-256 ${digest.toLowerCase()}, got ${found}.`);
    }
  }
  if (problems.length) throw new LinkError(...problems);
  return modules;
}

/** Instantiate the first half of each split module, after the halves whose globals give it initial values. */
async function states(splits, modules, sources, objects) {
  const of = (name) => splits.get(name).needed.map((one) => sources.get(name)[modules.get(name).imports.indexOf(one)]);
  const needs = new Map([...splits.keys()].map((name) => [name, of(name).map(({ module }) => module)]));
  const found = new Map();
  for (const group of components([...splits.keys()], needs)) {
    const [name] = group;
    if (group.length > 1 || needs.get(name).includes(name)) {
      const circle = group.map((one) => `'${one}'`).join(", ");
      const problem = "globals take their first values from each other in a circle";
      throw new LinkError(
        `module '${name}': ${problem}; expected one that starts with a constant, got the modules ${circle}.`,
      );
    }
    const values = of(name).map(({ module, name: key }) => objects.get(module).get(key));
    found.set(name, await instance(name, splits.get(name).state, importObject(splits.get(name).needed, values)));
    for (const [key, { kind, index }] of modules.get(name).exports) {
      const held = found.get(name)[`${kind} ${index}`];
      if (held !== undefined) objects.get(name).set(key, held);
    }
  }
  return found;
}

function importObject(imports, values) {
  const object = {};
  imports.forEach(({ module, name }, i) => ((object[module] ??= {})[name] = values[i]));
  return object;
}

function checkSizes(name, imports, sources, values) {
  const problems = imports.flatMap((one, i) => {
    if (!("minimum" in one.type)) return [];
    const minimum = one.type.kind === "memory" ? values[i].buffer.byteLength / PAGE : values[i].length;
    const found = { ...sources[i].type, minimum };
    const problem = mismatch(one.type, found);
    const types = `expected ${typeText(one.type)}, got ${typeText(found)}`;
    return problem ? [importError(name, one, `${problem}; ${types}`)] : [];
  });
  if (problems.length) throw new LinkError(...problems);
}

/**
 * Instantiate modules, and give each module the exports of other modules and of the host that it imports. The docstring
 * of `link` in `linking.py` says how modules may import from each other.
 *
 * @param sources {name: bytes, or a Response, or a promise of one}
 * @param hosts {name: {name: hostFunction(…), hostMemory(…), hostTable(…) or hostGlobal(…)}}
 * @param options memory: the largest size of each memory in bytes. digests: {name: SHA-256 in hexadecimal}; browsers
 *   compute digests on https and localhost only.
 * @returns {name: {name of an export: function, WebAssembly.Memory, Table or Global}}, including the names in `hosts`
 */
export async function link(sources, hosts = {}, { memory = null, digests = {} } = {}) {
  const given = new Map(Object.entries(hosts).map(([name, items]) => [name, new Map(Object.entries(items))]));
  let modules = await opened(sources, digests);
  const found = resolved(modules, given, memory);
  const groups = ordered(modules, found);
  if (memory !== null) {
    modules = new Map([...modules].map(([name, one]) => [name, limited(one, Math.floor(memory / PAGE))]));
  }
  const linked = {};
  const objects = new Map([...given.keys(), ...modules.keys()].map((name) => [name, new Map()]));
  for (const [name, items] of given) {
    for (const [key, item] of items) {
      try {
        objects.get(name).set(key, made(item, linked, memory));
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        const where = `host module '${name}', ${item.type.kind} '${key}'`;
        throw new LinkError(`${where}: the engine refuses it: ${error.message}.`);
      }
    }
    linked[name] = Object.fromEntries(objects.get(name));
  }
  const late = lateFunctions(modules, groups, found);
  const stubs = late.length ? await instance("trampolines", trampolines(late), {}) : null;
  for (const { names, circular } of groups) {
    const splits = new Map(circular ? names.map((name) => [name, split(modules.get(name), name)]) : []);
    const state = await states(splits, modules, found, objects);
    for (const name of names) {
      const module = modules.get(name);
      const values = found.get(name).map((source) => {
        const place = late.findIndex((one) => one.module === source.module && one.key === source.name);
        return objects.get(source.module).get(source.name) ?? stubs[place];
      });
      checkSizes(name, module.imports, found.get(name), values);
      const imports = { ...importObject(module.imports, values), ...(circular ? { [STATE]: state.get(name) } : {}) };
      linked[name] = await instance(name, circular ? splits.get(name).code : module.data, imports);
      for (const [key, one] of Object.entries(linked[name])) {
        if (!objects.get(name).has(key)) objects.get(name).set(key, one);
      }
      late.forEach((one, i) => one.module === name && stubs.table.set(i, linked[name][one.key]));
    }
  }
  return linked;
}

/** Return the functions that a module imports before the module that defines them exists. They need trampolines. */
function lateFunctions(modules, groups, sources) {
  const [late, done] = [[], new Set()];
  for (const name of groups.flatMap(({ names }) => names)) {
    for (const { module, name: key, type } of sources.get(name)) {
      const waits = modules.has(module) && !done.has(module) && type.kind === "function";
      if (waits && !late.some((one) => one.module === module && one.key === key)) {
        late.push({ module, key, name: `${module}.${key}`, type });
      }
    }
    done.add(name);
  }
  return late;
}
