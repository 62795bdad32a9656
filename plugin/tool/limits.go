package tool

// Limits of what is read, in bytes unless they say otherwise.
const (
	MaxSource      = 1 << 20   // of a file
	MaxDescription = 64 << 10  // of a DESCRIPTION in UTF-8
	MaxSchema      = 256 << 10 // of a SCHEMA as JSON
	MaxArguments   = 1 << 20   // of one call, as JSON
	MaxFiles       = 512       // files in one zone
	maxDepth       = 64        // levels of a SCHEMA and of arguments
	maxNumber      = 400       // characters of a number, and its exponent
	maxSchemas     = 2000      // schemas within a SCHEMA
	maxSteps       = 2_000_000 // schemas that one validation evaluates
)
