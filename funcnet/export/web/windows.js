/**
 * Split a long text into overlapping rows, and find the answer to a question in the logits of these rows.
 * `funcnet.heads.windows` does the same in Python, and gives the reasons.
 */

import { highest, softmax } from "./numbers.js";

/** Return the largest number of tokens in a question, for rows of at most `longest` tokens. */
export function longestQuestion(longest) {
  return Math.min(64, Math.floor(longest / 2));
}

/** Characters that are not white space in Python. JavaScript has other white space. */
const DROPPED = /^[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*/;

/**
 * Return the rows [CLS] question [SEP] part [SEP]: [{ids, types, prefix, tokens, leads}].
 *
 * `question` has at most `longestQuestion` ids. The argument `tokens` has the tokens of the text, as
 * `tokenizer.located` returns them. In a row, `tokens` has those of the part, and `prefix` is the number of tokens
 * before the part. `leads` is true for a token if this is the row with the most context around the token. An answer
 * begins only at such a token. `before` is the end of the token before the part, and `after` is the start of the token
 * after it.
 */
export function readWindows(question, tokens, { cls, sep }, longest, stride) {
  const prefix = [cls, ...question, sep];
  const room = longest - prefix.length - 1;
  const found = stretches(tokens.length, room, Math.min(stride, room));
  const owners = ownersOf(found, tokens.length);
  return found.map(([begin, size], number) => {
    const part = tokens.slice(begin, begin + size);
    const ids = [...prefix, ...part.map(({ id }) => id), sep];
    const types = ids.map((_, place) => Number(place >= prefix.length));
    const leads = part.map((_, i) => owners[begin + i] === number);
    const [before, after] = [tokens[begin - 1]?.end ?? 0, tokens[begin + size]?.start];
    return { ids, types, prefix: prefix.length, tokens: part, leads, before, after };
  });
}

/** Return [first token, number of tokens] of each part of a text. */
function stretches(count, room, stride) {
  const found = [];
  for (let begin = 0; ; begin += stride) {
    const size = Math.min(room, count - begin);
    found.push([begin, size]);
    if (begin + size >= count) return found;
  }
}

/** Return, for each token, the number of the part with the most context around it, or the first such part. */
function ownersOf(found, count) {
  const best = new Float64Array(count).fill(-Infinity);
  const owners = new Int32Array(count);
  found.forEach(([begin, size], number) => {
    for (let place = 0; place < size; place++) {
      const score = Math.min(place, size - 1 - place) + 0.01 * size;
      if (score > best[begin + place]) [best[begin + place], owners[begin + place]] = [score, number];
    }
  });
  return owners;
}

/**
 * Find the answer {answer, start, best, noAnswer} in a text. `logits` has an array for each row. For each token, it has
 * the logit that the answer starts there, and the logit that the answer ends there.
 *
 * `best` is [{text, start, score, probability}], the likeliest answer first. For "no answer", the text is "", and
 * `start` is -1. `noAnswer` is the score of "no answer" minus that of the best answer.
 */
export function findAnswer(text, windows, logits, settings) {
  const chances = windows.map(({ ids }, row) => [0, 1].map((end) => logSoftmax(ids.map((_, i) => logits[row][2 * i + end]))));
  const scored = windows.flatMap((window, row) => candidates(text, window, chances[row], settings));
  const found = new Map();
  for (const { score, start, end } of scored.sort((a, b) => b.score - a.score)) {
    if (found.size === settings.n_best) break;
    const answer = text.slice(start, end);
    if (!found.has(answer)) found.set(answer, { text: answer, start, score });
  }
  const silence = chances.reduce((least, [start, end]) => Math.min(least, start[0] + end[0]), Infinity); // at [CLS]
  const [first] = found.values();
  const noAnswer = silence - (first?.score ?? silence);
  if (settings.no_answers || !first) found.set("", { text: "", start: -1, score: silence });
  const ranked = [...found.values()].sort((a, b) => b.score - a.score);
  const shares = softmax(ranked.map(({ score }) => score));
  const best = ranked.map((one, i) => ({ ...one, probability: shares[i] }));
  const isSilent = !first || (settings.no_answers && noAnswer > settings.null_threshold);
  const chosen = isSilent ? { text: "", start: -1 } : first;
  return { answer: chosen.text, start: chosen.start, best, noAnswer };
}

/** Return the likeliest answers in one row: [{score, start, end}]. */
function candidates(text, window, [starts, ends], { n_best: count, max_answer: most }) {
  const { prefix, tokens, leads } = window;
  const part = (values) => values.slice(prefix, prefix + tokens.length);
  const [start, end] = [part(starts).map((value, i) => (leads[i] ? value : -Infinity)), part(ends)];
  const lasts = highest(end, count);
  return highest(start, count).flatMap((first) =>
    lasts
      .filter((last) => leads[first] && last >= first && last - first < most)
      .map((last) => ({ score: start[first] + end[last], ...characters(text, window, first, last) })),
  );
}

/** Return {start, end} of tokens together with the characters around them that normalisation dropped. */
function characters(text, { tokens, before, after }, first, last) {
  const [{ start }, { end }] = [tokens[first], tokens[last]];
  const ahead = text.slice(tokens[first - 1]?.end ?? before, start);
  const dropped = [...ahead].reverse().join("").match(DROPPED)[0].length;
  const isNext = dropped < ahead.length || ahead.length === start; // no token directly before them
  const behind = text.slice(end, tokens[last + 1]?.start ?? after);
  return { start: start - (isNext ? dropped : 0), end: end + behind.match(DROPPED)[0].length };
}

function logSoftmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = logits.reduce((total, x) => total + Math.exp(x - most), 0);
  return logits.map((x) => x - most - Math.log(sum));
}
