// Links the cases that come in on standard input, with link.js, and prints for each what was returned or thrown.
import { readFileSync } from "node:fs";

const { hostFunction, hostGlobal, hostMemory, hostTable, link } = await import(process.argv[2]);
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const make = {
  function: ({ params, results }) =>
    hostFunction(params, results, (...args) => (results.length ? args.reduce((a, b) => a + b, 0) : undefined)),
  memory: ({ minimum, maximum }) => hostMemory(minimum, maximum),
  table: ({ minimum, maximum, element }) => hostTable(minimum, maximum, element),
  global: ({ value, first, mutable }) => hostGlobal(value, first, { mutable }),
};
const mapped = (object, f) => Object.fromEntries(Object.entries(object).map(([key, value]) => [key, f(value)]));

async function run({ modules, hosts, options, calls }) {
  const items = mapped(hosts, (host) => mapped(host, (item) => make[item.kind](item)));
  const linked = await link(mapped(modules, bytes), items, options);
  return calls.map(([module, name, ...args]) => {
    const one = linked[module][name];
    if (typeof one === "function") return one(...args) ?? null;
    if (one instanceof WebAssembly.Global) return one.value;
    if (one instanceof WebAssembly.Memory) {
      const [pointer, what] = args; // a number of bytes is read, and a list of bytes is written
      const shown = new Uint8Array(one.buffer, pointer, what.length ?? what);
      if (what.length) shown.set(what);
      return [...shown];
    }
    return one.length;
  });
}

const out = [];
for (const one of JSON.parse(readFileSync(0, "utf-8"))) {
  try {
    out.push({ results: await run(one) });
  } catch (error) {
    const frames = [...(error.stack ?? "").matchAll(/at (?:\w+\.)?(\w+) \(wasm:/g)].map(([, name]) => name);
    out.push({ name: error.name, error: error.message, ...(frames.length ? { frames } : {}) });
  }
}
console.log(JSON.stringify(out));
