/**
 * The answers of a model to texts, which are those of `funcnet.serving.inference` in Python. Each task has a function.
 *
 *     const answer = answerer(facts, tokenizer, model);
 *     answer("The cat sat on the [MASK].").masks[0][0]; // {token, id, probability}
 */

import { PageError } from "./model.js";
import { highest, softmax } from "./numbers.js";
import { findAnswer, longestQuestion, readWindows } from "./windows.js";

const SHOWN = 5;

/** Return the function (text, second text or null) -> answer for the task of a page. */
export function answerer(facts, tokenizer, model) {
  const forms = { "fill-mask": fillMask, tokens: tagWords, similarity: compare, answer: answerQuestion, choice: choose };
  const form = forms[facts.task] ?? classify;
  return (text, second = null) => {
    const start = performance.now();
    const answer = form(text, second, facts, tokenizer, model);
    return { task: facts.task, ...answer, ms: performance.now() - start };
  };
}

function fillMask(text, second, facts, tokenizer, model) {
  const { ids, types } = tokenizer.encode(text);
  const { mask } = tokenizer.special;
  if (!ids.includes(mask)) throw new PageError("Replace a word with [MASK], and the model will guess it.");
  requireRoom(ids.length, model.longest);
  const places = ids.flatMap((id, place) => (id === mask ? [place] : []));
  const rows = [];
  let length;
  for (let start = 0; start < places.length; start += model.slots) {
    const some = places.slice(start, start + model.slots);
    const { values, shape, length: padded } = model.run(ids, types, some);
    some.forEach((_, i) => rows.push(values.subarray(i * shape[1], i * shape[1] + tokenizer.vocabulary.length)));
    length = padded;
  }
  const masks = rows.map((logits) => {
    const chances = softmax(logits);
    return highest(chances, SHOWN).map((id) => ({ token: tokenizer.vocabulary[id], id, probability: chances[id] }));
  });
  return { ids, length, masks, logits: rows };
}

function classify(text, second, facts, tokenizer, model) {
  let rows;
  let note = null;
  if (facts.long_texts === "parts") rows = parts(tokenizer, text, model.longest);
  else {
    const row = tokenizer.encode(text, second, model.longest);
    note = cutNote(row.full, model.longest);
    rows = [row];
  }
  const found = rows.map(({ ids, types }) => model.run(ids, types));
  const logits = Array.from(found[0].values, (_, i) => found.reduce((sum, { values }) => sum + values[i], 0) / rows.length);
  const shared = { ids: rows[0].ids, length: found[0].length, note, logits: [logits] };
  if (facts.task === "regress") return { ...shared, values: logits };
  const chances = facts.task === "labels" ? logits.map((x) => 1 / (1 + Math.exp(-x))) : softmax(logits);
  const labels = facts.labels.map((label, i) => ({ label, probability: chances[i] }));
  labels.sort((a, b) => b.probability - a.probability);
  return { ...shared, labels };
}

function tagWords(text, second, facts, tokenizer, model) {
  const words = tokenizer.split(text, true);
  const row = tokenizer.encodeWords(
    words.map((word) => word.text),
    model.longest,
  );
  const { values, shape, length } = model.run(row.ids, row.types);
  const outside = facts.labels.includes("O") ? "O" : facts.labels[0];
  const tagged = words.map((word) => ({ ...word, tag: outside, probability: null }));
  row.words.forEach((word, place) => {
    if (word === null || word === row.words[place - 1]) return; // a word has the tag of its first token
    const chances = softmax(values.subarray(place * shape[1], (place + 1) * shape[1]));
    const [best] = highest(chances, 1);
    Object.assign(tagged[word], { tag: facts.labels[best], probability: chances[best] });
  });
  const note = cutNote(row.full, model.longest);
  return { ids: row.ids, length, note, words: tagged, spans: facts.entities ? entities(tagged) : singles(tagged) };
}

function compare(text, second, facts, tokenizer, model) {
  const rows = [text, second ?? ""].map((one) => tokenizer.encode(one, null, model.longest));
  const [a, b] = rows.map(({ ids, types }) => model.run(ids, types));
  const similarity = a.values.reduce((sum, value, i) => sum + value * b.values[i], 0);
  const note = cutNote(Math.max(rows[0].full, rows[1].full), model.longest);
  return { ids: rows[0].ids, length: Math.max(a.length, b.length), note, similarity, logits: [a.values, b.values] };
}

function answerQuestion(text, question, facts, tokenizer, model) {
  const asked = tokenizer.pieces(question ?? "");
  const most = longestQuestion(model.longest);
  const { special } = tokenizer;
  const windows = readWindows(asked.slice(0, most), tokenizer.located(text), special, model.longest, facts.spans.doc_stride);
  const found = windows.map(({ ids, types }) => model.run(ids, types));
  const logits = found.map(({ values }) => values);
  const { best, ...answer } = findAnswer(text, windows, logits, facts.spans);
  const note = asked.length > most ? `The question has ${asked.length} tokens; only the first ${most} were read.` : null;
  const shared = { ids: windows[0].ids, length: found[0].length, parts: windows.length, note, logits };
  return { ...shared, ...answer, best: best.slice(0, SHOWN) };
}

/** Choose a line of the second text. The model reads the text with each line, and gives a number for each. */
function choose(text, second, facts, tokenizer, model) {
  const lines = (second ?? "").split("\n").filter((line) => line.trim());
  if (!lines.length) throw new PageError("Write choices, each on its own line.");
  const rows = lines.map((line) => tokenizer.encode(text, line, model.longest));
  const found = rows.map(({ ids, types }) => model.run(ids, types));
  const logits = found.map(({ values }) => values[0]);
  const chances = softmax(logits);
  const [choice] = highest(chances, 1);
  const choices = lines.map((line, i) => ({ text: line, probability: chances[i] }));
  const full = Math.max(...rows.map((row) => row.full));
  const isCut = full > model.longest;
  const note = isCut ? `The text and the longest choice have ${full} tokens; only ${model.longest} were read.` : null;
  return { ids: rows[choice].ids, length: found[choice].length, note, choice, choices, logits: [logits] };
}

// ---------------------------------------------------------------------------------------------------------- spans

/** Return the entities in the tags of words. By the rules of CoNLL, a tag has a prefix B, I, E or S, and a type. */
export function entities(words) {
  const found = [];
  let [before, kind] = ["O", ""];
  for (const { tag, start, end } of words) {
    const dash = tag.indexOf("-");
    const prefix = dash < 0 ? tag : tag.slice(0, dash);
    const type = dash < 0 ? "_" : tag.slice(dash + 1) || "_";
    const begins = prefix !== "O" && ("BS".includes(prefix) || "ESO".includes(before) || type !== kind);
    if (begins) found.push({ type, start, end });
    else if (prefix !== "O") found.at(-1).end = end;
    [before, kind] = [prefix, type];
  }
  return found;
}

function singles(words) {
  return words.filter(({ tag }) => tag !== "O").map(({ tag, start, end }) => ({ type: tag, start, end }));
}

// --------------------------------------------------------------------------------------------------------- lengths

/** Return the rows of a long text: as few rows as possible, of almost equal lengths. */
function parts(tokenizer, text, longest) {
  const { cls, sep } = tokenizer.special;
  const ids = tokenizer.pieces(text);
  const count = Math.max(1, Math.ceil(ids.length / (longest - 2)));
  return Array.from({ length: count }, (_, part) => {
    const [start, end] = [part, part + 1].map((n) => Math.floor((ids.length * n) / count));
    const row = [cls, ...ids.slice(start, end), sep];
    return { ids: row, types: row.map(() => 0) };
  });
}

function requireRoom(length, longest) {
  if (length > longest) {
    throw new PageError(`The text has ${length} tokens, but this page reads at most ${longest}. Shorten the text.`);
  }
}

function cutNote(full, longest) {
  return full > longest ? `The text has ${full} tokens; only the first ${longest} were read.` : null;
}
