// The part of export_wasm.py that runs in Node: our modules and onnxruntime-web in turn, in one process.
//
//     node export_wasm.mjs JOB.json
//
// The job names the inputs, the number of rounds, and for each contender its file and the file for its outputs. Our
// modules end in .wasm, and what onnxruntime-web runs in .onnx. Written: the CPU milliseconds of each call to
// `job.times`, and the outputs of each contender, one after the other as float32.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout } from "node:timers/promises";

const WARM = 3000; // CPU milliseconds of calls before the first round, in which V8 compiles most functions again

const job = JSON.parse(fs.readFileSync(process.argv[2], "utf-8"));

async function ours(file) {
  const compiled = await WebAssembly.compile(fs.readFileSync(file));
  const { exports } = await WebAssembly.instantiate(compiled, {});
  const [section] = WebAssembly.Module.customSections(compiled, "funcnet");
  const { entries } = JSON.parse(new TextDecoder().decode(section));
  const entry = entries.find((one) => one.length === job.tokens);
  const inputs = Object.values(job.inputs);
  const view = (Kind, { address, shape }) =>
    new Kind(exports.memory.buffer, address, shape.reduce((a, b) => a * b, 1));
  let results;
  return {
    call: () => {
      entry.inputs.forEach((place, i) => view(Int32Array, place).set(inputs[i]));
      exports[entry.run]();
      results = entry.outputs.map((place) => view(Float32Array, place).slice()); // as onnxruntime-web returns copies
    },
    outputs: () => results,
  };
}

async function web(file) {
  const ort = createRequire(path.join(job.npm, "package.json"))("onnxruntime-web");
  Object.assign(ort.env.wasm, { numThreads: 1, proxy: false });
  ort.env.logLevel = "error";
  const options = { executionProviders: ["wasm"], graphOptimizationLevel: "all" };
  const session = await ort.InferenceSession.create(fs.readFileSync(file), options);
  const tensor = (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, job.tokens]);
  const feed = Object.fromEntries(Object.entries(job.inputs).map(([name, values]) => [name, tensor(values)]));
  let results;
  return {
    call: async () => {
      results = await session.run(feed);
    },
    outputs: () => session.outputNames.map((name) => results[name].data),
  };
}

/** CPU milliseconds of all threads of this process for one call. */
async function timed(call) {
  const before = process.cpuUsage();
  await call();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

const runners = {};
for (const [name, { file }] of Object.entries(job.contenders))
  runners[name] = await (file.endsWith(".wasm") ? ours : web)(file);
for (const { call } of Object.values(runners)) for (let spent = 0; spent < WARM; ) spent += await timed(call);
await setTimeout(500); // V8's compiling threads finish
const names = Object.keys(runners);
const times = Object.fromEntries(names.map((name) => [name, []]));
for (let round = 0; round < job.rounds; round++) {
  names.push(names.shift()); // who runs after whom matters for caches
  if (round % names.length === 0) names.reverse();
  for (const name of names) times[name].push(await timed(runners[name].call));
}
for (const [name, { outputs }] of Object.entries(runners)) {
  const bytes = outputs().map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength));
  fs.writeFileSync(job.contenders[name].outputs, Buffer.concat(bytes));
}
fs.writeFileSync(job.times, JSON.stringify(times));
