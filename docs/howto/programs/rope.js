// RoPE for `posenc check --exec "node rope.js"`: reads the safetensors file of its first argument, writes that of its
// second. Positions are int64, tokens float32.
"use strict";
const fs = require("fs");

function read(path) {
  const file = fs.readFileSync(path), first = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString("utf8", 8, first)), tensors = {};
  delete header.__metadata__;
  for (const [name, { dtype, shape, data_offsets: [start, stop] }] of Object.entries(header)) {
    if (!(dtype in { F32: 1, I64: 1 })) throw new Error(`${name} is ${dtype}; only F32 and I64 are here`);
    const bytes = new Uint8Array(file.subarray(first + start, first + stop)).buffer; // a copy begins where it may
    tensors[name] = { shape, data: dtype === "F32" ? new Float32Array(bytes) : new BigInt64Array(bytes) };
  }
  return tensors;
}

function write(path, tensors) {
  const header = {}, parts = [];
  let start = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: "F32", shape, data_offsets: [start, start += data.byteLength] };
    parts.push(Buffer.from(data.buffer));
  }
  const text = Buffer.from(JSON.stringify(header)), size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  fs.writeFileSync(path, Buffer.concat([size, text, ...parts]));
}

function rotate({ shape, data }, positions) {
  const [, heads, length, width] = shape, half = width / 2;
  for (let row = 0; row < data.length / width; row++) {
    const batch = positions.shape.length > 1 ? Math.floor(row / (heads * length)) : 0;
    const position = Number(positions.data[batch * length + row % length]);
    for (let pair = 0; pair < half; pair++) { // put your own here
      const angle = position * 10000 ** (-2 * pair / width), i = row * width + pair;
      const cos = Math.cos(angle), sin = Math.sin(angle), first = data[i], second = data[i + half];
      data[i] = first * cos - second * sin;
      data[i + half] = second * cos + first * sin;
    }
  }
}

const { q, k, positions } = read(process.argv[2]);
for (const x of [q, k]) rotate(x, positions);
write(process.argv[3], { q, k });
