// Package bench measures Remit beside comparable projects. It is a module of its own, so that the
// product does not carry the projects that it is compared with.
package bench
