/**
 * BERT's WordPiece tokenizer. Its ids are those of Hugging Face's `tokenizers` in Python.
 *
 *     const tokenizer = new Tokenizer(data); // the result of `tokenizer_data` in tokenizer.py
 *     tokenizer.encode("The cat [MASK].").ids;
 */

const CODES = 0x110000;
const [REMOVED, BLANK, APART, WHITE, PUNCTUATION] = [1, 2, 4, 8, 16];

export class Tokenizer {
  constructor(data) {
    this.vocabulary = data.vocabulary;
    this.special = data.special;
    this.longestWord = data.longest_word;
    this.prefix = data.prefix;
    this.numbers = new Map(data.vocabulary.map((token, id) => [token, id]));
    this.longestToken = data.vocabulary.reduce((most, token) => Math.max(most, [...token].length), 0);
    this.replaced = new Map(Object.entries(data.replaced));
    this.kinds = new Uint8Array(CODES); // for every code of Unicode, a bit for each table that contains it
    const tables = [data.removed, data.blank, data.apart, data.white, data.punctuation];
    tables.forEach((ranges, bit) => {
      for (let i = 0; i < ranges.length; i += 2) {
        for (let code = ranges[i]; code <= ranges[i + 1]; code++) this.kinds[code] |= 1 << bit;
      }
    });
    this.kinds.fill(this.kinds[0xfffd], 0xd800, 0xe000); // half of a surrogate pair is read as U+FFFD
    const longestFirst = [...data.added].sort((a, b) => b.length - a.length);
    const escaped = longestFirst.map((token) => token.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    this.added = new RegExp(`(${escaped.join("|") || "(?!)"})`);
  }

  /** Return the ids and types of one or two texts, cut to `most` tokens. `full` is the number of tokens without cut. */
  encode(text, second = null, most = Infinity) {
    const [a, b] = [this.pieces(text), second === null ? null : this.pieces(second)];
    return { ...this.row(a, b, most), full: a.length + (b === null ? 2 : b.length + 3) };
  }

  /** Return the ids and types of a list of words. `words[i]` is the index of the word that token i is in, or null. */
  encodeWords(words, most = Infinity) {
    const pieces = words.map((word) => this.pieces(word));
    const numbers = pieces.flatMap((ids, word) => ids.map(() => word));
    const row = this.row(pieces.flat(), null, most);
    const kept = numbers.slice(0, row.ids.length - 2);
    return { ...row, words: [null, ...kept, null], full: numbers.length + 2 };
  }

  /** Return the ids [CLS] a [SEP] b [SEP], cut to `most` tokens, and the types of the tokens. `b` may be null. */
  row(a, b, most) {
    const { cls, sep } = this.special;
    const [first, second] = cut(a.length, b === null ? 0 : b.length, Math.max(0, most - (b === null ? 2 : 3)));
    const ids = [cls, ...a.slice(0, first), sep];
    const types = ids.map(() => 0);
    if (b !== null) {
      ids.push(...b.slice(0, second), sep);
      while (types.length < ids.length) types.push(1);
    }
    return { ids, types };
  }

  /** Return the ids of a text of any length, without [CLS] and [SEP]. */
  pieces(text) {
    return this.located(text).map(({ id }) => id);
  }

  /** Return the tokens of a text of any length, with their positions in the text: [{id, start, end}]. */
  located(text) {
    const found = [];
    let begin = 0; // position of the part in the text
    text.split(this.added).forEach((part, index) => {
      if (index % 2 === 1) found.push({ id: this.numbers.get(part), start: begin, end: begin + part.length });
      else {
        const { form, starts, ends } = this.normalise(part);
        for (const word of this.split(form)) {
          for (const { id, start, end } of this.wordPiece(word.text)) {
            const [first, last] = [word.start + start, word.start + end - 1];
            found.push({ id, start: begin + starts[first], end: begin + ends[last] });
          }
        }
      }
      begin += part.length;
    });
    return found;
  }

  /**
   * Return the normalised text: without control characters and, for an uncased model, in lower case and without
   * accents. `starts[i]` and `ends[i]` are the positions in the text of the character that `form[i]` comes from.
   */
  normalise(text) {
    let form = "";
    const [starts, ends] = [[], []];
    let at = 0;
    for (const character of text) {
      const next = at + character.length;
      form += this.normalised(character);
      while (starts.length < form.length) {
        starts.push(at);
        ends.push(next);
      }
      at = next;
    }
    return { form, starts, ends };
  }

  normalised(character) {
    const form = this.replaced.get(character);
    if (form !== undefined) return form;
    const kind = this.kinds[character.codePointAt(0)];
    if (kind & REMOVED) return "";
    if (kind & BLANK) return " ";
    return kind & APART ? ` ${character} ` : character;
  }

  /** Return words and punctuation with their positions: [{text, start, end}]. With `apart`, ideographs too. */
  split(text, apart = false) {
    const found = [];
    let start = -1;
    let at = 0;
    const end = () => {
      if (start >= 0) found.push({ text: text.slice(start, at), start, end: at });
      start = -1;
    };
    for (const character of text) {
      const kind = this.kinds[character.codePointAt(0)];
      const form = this.replaced.get(character);
      const alone = kind & PUNCTUATION || (apart && (kind & APART || (form?.length > 2 && /^ .* $/su.test(form))));
      if (kind & WHITE) end();
      else if (alone) {
        end();
        found.push({ text: character, start: at, end: at + character.length });
      } else if (start < 0) start = at;
      at += character.length;
    }
    end();
    return found;
  }

  /**
   * Return the tokens of a word with their positions in the word. Each token is the longest one at its position. If
   * there is no token at a position, the result is one [UNK].
   */
  wordPiece(word) {
    const characters = [...word];
    const found = [];
    let start = 0;
    let at = 0; // the same position as `start`, in units of UTF-16
    while (start < characters.length && characters.length <= this.longestWord) {
      const head = start > 0 ? this.prefix : "";
      let end = Math.min(characters.length, start + this.longestToken);
      let [id, piece] = [];
      while (end > start) {
        piece = characters.slice(start, end).join("");
        id = this.numbers.get(head + piece);
        if (id !== undefined) break;
        end--;
      }
      if (id === undefined) break;
      found.push({ id, start: at, end: at + piece.length });
      at += piece.length;
      start = end;
    }
    return start < characters.length ? [{ id: this.special.unk, start: 0, end: word.length }] : found;
  }
}

/** Return how many tokens of two texts stay if there is room for `room` tokens. The longer text is cut first. */
export function cut(first, second, room) {
  if (first + second <= room) return [first, second];
  if (second === 0) return [Math.min(first, room), 0];
  let [short, long] = [Math.min(first, second), Math.max(first, second)];
  long = short > room ? short : Math.max(short, room - short);
  if (short + long > room) {
    short = Math.floor(room / 2);
    long = short + (room % 2);
  }
  return first > second ? [long, short] : [short, long];
}
