//go:build linux

#include "textflag.h"

// func vfork(stack uintptr, h *header, ops unsafe.Pointer, rec *record) (pid, errno uintptr)
TEXT ·vfork(SB), NOSPLIT, $0-48
	MOVQ stack+0(FP), SI
	MOVQ h+8(FP), R12
	MOVQ ops+16(FP), R13
	MOVQ rec+24(FP), R9
	MOVQ $0x4111, DI // CLONE_VM, CLONE_VFORK, SIGCHLD
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX // clone
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	CMPQ AX, $0xfffffffffffff001
	JLS  ok
	NEGQ AX
	MOVQ $0, pid+32(FP)
	MOVQ AX, errno+40(FP)
	RET

ok:
	MOVQ AX, pid+32(FP)
	MOVQ $0, errno+40(FP)
	RET

child: // on a stack of its own, and it does not come back
	MOVQ SP, BX
	MOVQ R12, 0(BX)
	MOVQ R13, 8(BX)
	MOVQ R9, 16(BX)
	CALL ·tool(SB)
	INT  $3
