/**
 * The page: one or two fields for texts, the answer, and the time that the answer took.
 *
 * The address contains the text, as in index.html#text=The%20[MASK]%20sat. For other scripts, `window.funcnet` has
 * `ready` (a promise), `tokenizer`, `model`, `answer(text, second)` and `run(ids, types, places)`.
 */

import { answerer } from "./answers.js";
import { Model, PageError, joinPlanes, unpack } from "./model.js";
import { Tokenizer } from "./tokenizer.js";

const FORMS = {
  "fill-mask": { label: "Text with [MASK]", hint: "The model guesses the word behind each [MASK]. Choose a guess to put it in." },
  classify: { label: "Text", hint: "The model chooses one of the labels." },
  labels: { label: "Text", hint: "The model says how likely each label is. Several may apply." },
  regress: { label: "Text", hint: "The model gives a number." },
  tokens: { label: "Text", hint: "The model marks the words." },
  similarity: { label: "First text", hint: "1 means the same meaning, 0 nothing in common.", both: "two texts" },
  answer: {
    label: "Text",
    second: "Question",
    hint: "The model finds the answer in the text.",
    both: "a text and a question",
    rows: [6, 2],
  },
  choice: {
    label: "Text",
    second: "Choices, one per line",
    hint: "The model says how likely each choice is.",
    both: "a text and choices",
    rows: [2, 4],
  },
};
const MASK = "[MASK]";
const SLOW = 30; // milliseconds: if an answer takes longer, the page waits for a pause in the typing
const PAUSE = 250;

const $ = (id) => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const [field, second] = [$("text"), $("text_b")];

// ------------------------------------------------------------------------------------------------------- the model

async function bytes(name) {
  const inside = $(`data-${name}`);
  if (inside) {
    const unpacked = await unpack(inside.textContent);
    inside.remove();
    return name === "weights" ? joinPlanes(unpacked) : unpacked;
  }
  if (location.protocol === "file:") {
    throw new PageError(
      "Browsers do not let a page read the files beside it when it is opened from a disk. In its folder, start " +
        "“python -m http.server”, and open http://localhost:8000.",
    );
  }
  const response = await fetch(`model.${name}`);
  if (!response.ok) throw new PageError(`model.${name} was not sent: HTTP status ${response.status}.`);
  return new Uint8Array(await response.arrayBuffer());
}

async function load() {
  if (typeof WebAssembly !== "object") throw new PageError("This browser has no WebAssembly, which the page needs.");
  const tokenizer = new Tokenizer(facts.tokenizer);
  const [code, weights] = await Promise.all(["wasm", "weights"].map(bytes));
  const model = await Model.open(code, weights, { pad: tokenizer.special.pad });
  const answer = answerer(facts, tokenizer, model);
  answer("a [MASK]", "b"); // the first call compiles
  const run = (ids, types, places) => model.run(ids, types, places ?? masksOf(ids, tokenizer, model));
  Object.assign(window.funcnet, { facts, tokenizer, model, answer, run });
}

function masksOf(ids, tokenizer, model) {
  return [...ids.keys()].filter((place) => ids[place] === tokenizer.special.mask).slice(0, model.slots);
}

// -------------------------------------------------------------------------------------------------------- elements

/** Return an element with properties and children. Text is never read as HTML. */
function element(name, properties = {}, ...children) {
  const { style, ...others } = properties;
  const made = Object.assign(document.createElement(name), others);
  for (const [key, value] of Object.entries(style ?? {})) made.style.setProperty(key, value);
  made.append(...children);
  return made;
}

const percent = (share) => (share >= 0.9995 || share === 0 ? `${Math.round(share * 100)} %` : `${(100 * share).toFixed(1)} %`);
const milliseconds = (ms) => (ms < 0.05 ? "less than 1 ms" : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`); // clocks are coarse
const megabytes = (count) => `${(count / 1e6).toFixed(1)} MB`;

/** Return a list with a bar for each entry. If `choose` is given, entries are buttons that call it. */
function bars(entries, choose = null) {
  const items = entries.map(({ name, probability }) => {
    const inner = element(
      choose ? "button" : "div",
      { style: { "--share": probability }, ...(choose && { type: "button", onclick: () => choose(name) }) },
      element("span", { textContent: name }),
      element("span", { className: "share", textContent: percent(probability) }),
    );
    const item = element("li", {}, inner);
    Object.assign(item.dataset, { name, probability });
    return item;
  });
  return element("ol", { className: "bars" }, ...items);
}

const HUES = [168, 28, 262, 340, 210, 80, 300, 128];

/** Return a text with marked spans [{type, start, end}]. Each type has its colour. Spans may have no type. */
function marked(text, spans) {
  const line = element("p", { className: "filled" });
  let at = 0;
  for (const { type = null, start, end } of spans) {
    const mark = element("mark", {}, text.slice(start, end));
    if (type !== null) {
      const number = facts.labels.findIndex((label) => label === type || label.endsWith(`-${type}`));
      const hue = HUES[number % HUES.length] ?? 0;
      mark.style.setProperty("background", `hsl(${hue} 60% 50% / 0.25)`);
      mark.append(element("sub", { textContent: type }));
      mark.dataset.type = type;
    }
    line.append(text.slice(at, start), mark);
    at = end;
  }
  line.append(text.slice(at));
  return line;
}

// --------------------------------------------------------------------------------------------------------- answers

function showMasks(answer) {
  const count = answer.masks.length;
  const lists = answer.masks.map((guesses, index) => {
    const heading = count > 1 ? [element("h2", { textContent: `${MASK} ${index + 1} of ${count}` })] : [];
    const entries = guesses.map(({ token, probability }) => ({ name: token, probability }));
    return element("div", {}, ...heading, bars(entries, (token) => fill(index, token)));
  });
  const best = answer.masks.map(([first]) => first.token);
  return [showFilled(field.value, best), element("div", { className: "masks" }, ...lists)];
}

/** Return the text with the likeliest words in place of its masks. */
function showFilled(text, tokens) {
  const line = element("p", { className: "filled" });
  text.split(MASK).forEach((part, index) => {
    const joined = tokens[index]?.startsWith("##"); // the token continues the word before it
    line.append(joined ? part.trimEnd() : part);
    if (index < tokens.length) line.append(element("mark", { textContent: tokens[index].replace(/^##/, "") }));
  });
  return line;
}

function fill(index, token) {
  const parts = field.value.split(MASK);
  const before = parts.slice(0, index + 1).join(MASK);
  const head = token.startsWith("##") ? before.trimEnd() : before;
  field.value = head + token.replace(/^##/, "") + parts.slice(index + 1).join(MASK);
  field.focus();
  update();
}

function showLabels(answer) {
  return [bars(answer.labels.map(({ label, probability }) => ({ name: label, probability })))];
}

function showAnswer({ answer, start, best }) {
  const list = bars(best.map(({ text, probability }) => ({ name: text || "No answer", probability })));
  if (start >= 0) return [list, marked(field.value, [{ start, end: start + answer.length }])];
  return [element("p", { className: "filled", textContent: "The text does not answer the question." }), list];
}

function showChoices({ choices }) {
  const entries = choices.map(({ text, probability }) => ({ name: text, probability }));
  return [bars(entries.sort((a, b) => b.probability - a.probability))];
}

function showNumber(values) {
  return values.map((value) => element("p", { className: "number", textContent: value.toFixed(3) }));
}

function show(answer) {
  const parts = {
    "fill-mask": () => showMasks(answer),
    tokens: () => [marked(field.value, answer.spans)],
    similarity: () => showNumber([answer.similarity]),
    regress: () => showNumber(answer.values),
    answer: () => showAnswer(answer),
    choice: () => showChoices(answer),
  };
  const note = answer.note ? [element("p", { className: "note", textContent: answer.note })] : [];
  $("answer").replaceChildren(...(parts[facts.task] ?? (() => showLabels(answer)))(), ...note);
  $("answer").className = "";
  const { vocabulary } = window.funcnet.tokenizer;
  $("tokens").replaceChildren(...answer.ids.map((id) => element("code", { textContent: vocabulary[id] })));
  const time = element("b", { textContent: milliseconds(answer.ms) });
  const others = answer.parts > 1 ? `, the first of ${answer.parts} parts` : "";
  $("latency").replaceChildren("Answered in ", time, ` · ${answer.ids.length} tokens, padded to ${answer.length}${others}`);
}

/** Show a problem, or none for null. `missing` is for a text without [MASK], which is shown as a hint, not an error. */
function say(problem, missing = false) {
  $("problem").textContent = problem ?? "";
  $("problem").hidden = !problem;
  $("problem").className = missing ? "missing" : "";
  field.setAttribute("aria-invalid", String(Boolean(problem) && !missing));
  if (!problem) return;
  $("answer").className = "old"; // the answer to the previous text
  $("latency").textContent = "No answer to this text yet.";
}

// ------------------------------------------------------------------------------------------------------ the typing

let waiting = 0;
let lastMs = 0;

function changed() {
  clearTimeout(waiting);
  waiting = setTimeout(update, lastMs > SLOW ? PAUSE : 0);
}

function update() {
  const { answer } = window.funcnet;
  rememberText();
  if (!answer) return; // the model is not loaded yet
  if (isEmpty()) {
    say(null);
    $("answer").replaceChildren();
    $("latency").textContent = `Ready. Write ${FORMS[facts.task].both ?? "a text"}.`;
    return;
  }
  try {
    const found = answer(field.value, facts.pairs ? second.value : null);
    window.funcnet.last = found;
    lastMs = found.ms;
    say(null);
    show(found);
  } catch (error) {
    if (!(error instanceof PageError)) console.error(error);
    say(error.message, facts.task === "fill-mask" && !field.value.includes(MASK));
  }
}

/** Return whether there is no text or, if the form needs both texts, one of them is missing. */
function isEmpty() {
  const texts = facts.pairs ? [field, second] : [field];
  const isBlank = (one) => !one.value.trim();
  return FORMS[facts.task].both ? texts.some(isBlank) : texts.every(isBlank);
}

/** Put the text into the address, so that a link contains it. */
function rememberText() {
  const query = new URLSearchParams({ text: field.value, ...(facts.pairs && { text_b: second.value }) });
  try {
    history.replaceState(null, "", `#${query}`);
  } catch {
    // some browsers limit how often the address changes
  }
}

function readAddress() {
  const query = new URLSearchParams(location.hash.slice(1));
  if (query.has("text")) field.value = query.get("text");
  if (query.has("text_b")) second.value = query.get("text_b");
  return query.has("text");
}

function insertMask() {
  const { selectionStart: start, selectionEnd: end, value } = field;
  const before = start > 0 && !/\s$/.test(value.slice(0, start)) && start === end ? " " : "";
  field.setRangeText(before + MASK, start, end, "end");
  field.focus();
  update();
}

async function copyLink() {
  rememberText();
  try {
    await navigator.clipboard.writeText(location.href);
    $("link").textContent = "Copied";
  } catch {
    $("link").textContent = "It is in the address bar";
  }
  setTimeout(() => ($("link").textContent = "Copy link"), 1500);
}

function arrange() {
  const form = FORMS[facts.task];
  $("label").textContent = facts.pairs && !form.second ? "First text" : form.label;
  if (form.second) {
    second.labels[0].textContent = form.second;
    [field.rows, second.rows] = form.rows;
  }
  $("hint").textContent = form.hint;
  $("about").textContent =
    `${facts.model}, ${facts.parameters} parameters, ${megabytes(facts.size)}. It runs in this page: what you type stays here.`;
  $("second").hidden = !facts.pairs;
  $("mask").hidden = facts.task !== "fill-mask";
  $("examples").hidden = facts.examples.length < 2;
  $("choices").append(
    ...facts.examples.map((text) => element("button", { type: "button", textContent: text, onclick: () => use(text) })),
  );
  if (!readAddress() && facts.examples.length) [field.value, second.value] = pair(facts.examples[0]);
  for (const one of [field, second]) one.addEventListener("input", changed);
  $("mask").addEventListener("click", insertMask);
  $("link").addEventListener("click", copyLink);
  window.addEventListener("hashchange", () => readAddress() && update());
  $("form").addEventListener("submit", (event) => event.preventDefault());
}

/** Split an example into the texts of both fields. The first line is for the first field. */
function pair(example) {
  if (!facts.pairs) return [example, ""];
  const [first, ...others] = example.split("\n");
  return [first, (facts.task === "choice" ? others : others.slice(0, 1)).join("\n")];
}

function use(example) {
  [field.value, second.value] = pair(example);
  field.focus();
  update();
}

async function start() {
  try {
    await load();
    update();
    document.documentElement.dataset.state = "ready";
  } catch (error) {
    if (!(error instanceof PageError)) console.error(error);
    say(error.message);
    $("latency").textContent = "The model was not loaded.";
    document.documentElement.dataset.state = "failed";
    throw error;
  }
}

window.funcnet = {};
arrange();
window.funcnet.ready = start();
window.funcnet.ready.catch(() => {}); // `start` has shown the error
