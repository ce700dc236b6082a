/**
 * Run a model that `to_wasm` compiled for several lengths. It takes token ids, and returns the numbers of its output.
 *
 *     const model = await Model.open(code, weights, { pad: 0 }); // code and weights are bytes
 *     const { values, shape } = model.run(ids, types);
 */

const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 10, 9, 1, 7, 0, 65, 0, 253, 15, 26, 11];

/** An error whose message is shown to the reader of the page. */
export class PageError extends Error {}

/** Return whether this browser has WebAssembly SIMD. `SIMD` has the bytes of a module with one vector of 128 bits. */
export function hasSimd() {
  return typeof WebAssembly === "object" && WebAssembly.validate(new Uint8Array(SIMD));
}

export class Model {
  /** Compile a module, and copy the weights into its memory. `pad` is the id of [PAD]. */
  static async open(code, weights, { pad }) {
    if (!hasSimd()) {
      throw new PageError(
        "This browser has no WebAssembly SIMD. The page needs Chrome or Edge 91, Firefox 89, Safari 16.4, or newer.",
      );
    }
    let module;
    try {
      module = await WebAssembly.compile(code);
    } catch (error) {
      throw new PageError(`The model's code is incomplete or was changed: ${error.message}`);
    }
    const [section] = WebAssembly.Module.customSections(module, "funcnet");
    if (!section) throw new PageError("The model's code was not written by funcnet.");
    const description = JSON.parse(new TextDecoder().decode(section));
    await requireWeights(weights, description.weights);
    const { exports } = await WebAssembly.instantiate(module, {});
    new Uint8Array(exports.memory.buffer).set(weights, description.weights.address);
    return new Model(exports, description, pad);
  }

  constructor(exports, description, pad) {
    this.exports = exports;
    this.pad = pad;
    this.entries = [...description.entries].sort((a, b) => a.length - b.length);
    this.lengths = this.entries.map((entry) => entry.length);
    this.longest = this.lengths.at(-1);
    this.slots = this.entries[0].inputs.find((input) => input.name === "masked_positions")?.shape[0] ?? 0;
  }

  /**
   * Run the model on one row of tokens, padded to the next length that the model has.
   *
   * `places` is for a model with the input `masked_positions`: the positions of at most `slots` tokens whose output is
   * computed. The result has the values (a copy), their shape without the dimension of rows, and the padded length.
   */
  run(ids, types = null, places = []) {
    const entry = this.entries.find((one) => one.length >= ids.length);
    if (!entry) throw new RangeError(`run: too many tokens; expected at most ${this.longest}, got ${ids.length}.`);
    if (places.length > this.slots) {
      throw new RangeError(`run: too many places; expected at most ${this.slots}, got ${places.length}.`);
    }
    const given = {
      input_ids: [this.pad, ids],
      attention_mask: [0, ids.map(() => 1)],
      token_type_ids: [0, types ?? []],
      masked_positions: [0, places],
    };
    const { buffer } = this.exports.memory;
    for (const input of entry.inputs) {
      const [rest, values] = given[input.name];
      const target = new Int32Array(buffer, input.address, input.shape.at(-1));
      target.fill(rest);
      target.set(values);
    }
    this.exports[entry.run]();
    const [output] = entry.outputs;
    const shape = output.shape.slice(1);
    const count = output.shape.reduce((a, b) => a * b, 1);
    return { values: new Float32Array(buffer, output.address, count).slice(), shape, length: entry.length };
  }
}

async function requireWeights(weights, { size, sha256 }) {
  if (weights.length !== size) {
    throw new PageError(`The model's weights are incomplete: ${weights.length} bytes of ${size}.`);
  }
  if (!globalThis.crypto?.subtle) return; // browsers offer it for https:, localhost and files only
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", weights));
  const found = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (found !== sha256) throw new PageError("The model's weights are another model's, or were changed.");
}

// --------------------------------------------------------------------------------------------- weights inside a page

/** Decode a base64 text, and decompress its bytes with zlib. */
export async function unpack(base64) {
  if (typeof DecompressionStream === "undefined") {
    throw new PageError("This browser cannot decompress the model. The page needs a browser of 2023 or newer.");
  }
  const raw = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Return the bytes of float32 numbers in their usual order. In `planes`, all first bytes come first, and so on. */
export function joinPlanes(planes) {
  const count = Math.floor(planes.length / 4);
  const out = new Uint8Array(planes); // bytes after the last whole number stay at the end
  for (let plane = 0; plane < 4; plane++) {
    for (let i = 0; i < count; i++) out[4 * i + plane] = planes[plane * count + i];
  }
  return out;
}
