// Package supervisor carries out, for confined processes, the system calls that take a path. The
// kernel stops each such call and asks (seccomp_unotify(2)). The supervisor finds what the path leads to
// in the process's own file tree, lets a [Decide] function decide on that, and makes the call by
// itself: a process gets the descriptor of the file that was decided on, so a path
// that changes meanwhile gains nothing. Start at [Filter] and [Start].
package supervisor
