#!/bin/sh
# Measures Remit and prints the figures beside their targets.
#   sh bench/run.sh [--write] [--full] [--soak] [--only SECTIONS]
# --write puts them into docs/BENCHMARKS.md; --full takes the longest plan; --soak
# fails where a figure of the section growth is 20 times its bar;
# --only takes an expression over decisions, calls, throughput, storage, gateway, door,
# streams, processes, ledger, growth, memory, sandbox, files, egress, changesets, wasm and grants; or fleet, which needs PostgreSQL.
# REMIT names the program to measure, REMIT_TESTDATA the folder of third-party cases,
# BENCH_DIR a folder on the disk to measure.
set -eu
cd "$(dirname "$0")/.."
REMIT=${REMIT:-$PWD/bin/remit}
[ -x "$REMIT" ] || { echo "bench/run.sh: no program at $REMIT: run make build first" >&2; exit 1; }
set -- "$@" --
while [ "$1" != -- ]; do
	arg=$1
	shift
	case $arg in
	--write) set -- "$@" -write "$PWD/docs/BENCHMARKS.md" ;;
	--full) set -- "$@" -full ;;
	--soak) set -- "$@" -soak ;;
	--only) set -- "$@" -only "$1"; shift ;;
	*) echo "bench/run.sh: unknown option $arg" >&2; exit 2 ;;
	esac
done
shift
mkdir -p bin
(cd bench && go build -o ../bin/ ./cmd/remit-bench ./cmd/bench-server)
exec bin/remit-bench -remit "$REMIT" ${BENCH_DIR:+-dir "$BENCH_DIR"} "$@"
