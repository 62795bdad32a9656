package verify

import "embed"

// Vectors are the conformance vectors that every verify plugin answers alike,
// in whatever language: testdata/vectors/NN-name.request.json with the expected
// response or the text of the refusal beside it.
//
//go:embed testdata/vectors
var Vectors embed.FS
