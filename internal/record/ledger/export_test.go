package ledger

// For tests that compare both ways of decoding an event.
var (
	CanonicalEvent = canonicalEvent
	DecodeAny      = decodeAny
)
