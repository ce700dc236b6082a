/** Probabilities, and the highest of some values. */

export function softmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(logits, (x) => Math.exp(x - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}

/** Return the indices of the highest values, the highest first. Of equal values, the first one comes first. */
export function highest(values, count) {
  const found = [];
  for (let i = 0; i < values.length; i++) {
    if (found.length === count && !(values[i] > values[found.at(-1)])) continue;
    let at = found.length;
    while (at > 0 && values[i] > values[found[at - 1]]) at--;
    found.splice(at, 0, i);
    found.length = Math.min(found.length, count);
  }
  return found;
}
