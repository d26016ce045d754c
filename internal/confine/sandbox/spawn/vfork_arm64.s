//go:build linux

#include "textflag.h"

// func vfork(stack uintptr, h *header, ops unsafe.Pointer, rec *record) (pid, errno uintptr)
TEXT ·vfork(SB), NOSPLIT, $0-48
	MOVD stack+0(FP), R1
	MOVD h+8(FP), R19
	MOVD ops+16(FP), R20
	MOVD rec+24(FP), R21
	MOVD $0x4111, R0 // CLONE_VM, CLONE_VFORK, SIGCHLD
	MOVD ZR, R2
	MOVD ZR, R3
	MOVD ZR, R4
	MOVD $220, R8 // clone
	SVC
	CBZ  R0, child
	CMN  $4095, R0
	BCC  ok
	NEG  R0, R0
	MOVD ZR, pid+32(FP)
	MOVD R0, errno+40(FP)
	RET

ok:
	MOVD R0, pid+32(FP)
	MOVD ZR, errno+40(FP)
	RET

child: // on a stack of its own, and it does not come back
	MOVD RSP, R22
	MOVD R19, 8(R22)
	MOVD R20, 16(R22)
	MOVD R21, 24(R22)
	BL   ·tool(SB)
	BRK
