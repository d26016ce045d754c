//go:build race

package approval_test

// depth is how many operations follow the first: the race detector makes each of
// them slow.
const depth = 3
