// Package supervisor carries out, for confined processes, the system calls that take a path. The kernel
// stops each such call and asks the supervisor (seccomp_unotify(2)). The supervisor resolves the path in
// the file tree of the process, and asks a [Decide] function about the real path. Then it makes the
// call itself and hands the open file to the process. A change of the path meanwhile has no effect.
// Start at [Rules], [SocketRules] and [Start]; decisions by a person are an [Ask].
package supervisor
