// Package vectors has golden vectors of positional encodings as files; README.md describes them.
package vectors

import "embed"

// Files has index.txt, golden.json, the tensors and the texts.
//
//go:embed *.safetensors *.json *.txt *.md LICENSE
var Files embed.FS
