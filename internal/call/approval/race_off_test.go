//go:build !race

package approval_test

// depth is how many operations follow the first.
const depth = 4
