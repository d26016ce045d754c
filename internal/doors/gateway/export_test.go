package gateway

// MaskKeys is exported for tests.
var MaskKeys = maskKeys
