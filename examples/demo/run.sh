#!/bin/sh
# Runs Remit's main job on real files, a real HTTP server and real commands:
# execute a plan, refuse what the policy does not allow, verify, replay, report.
# Everything stays in a folder of its own, which is printed at the end.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
remit=$here/../../bin/remit
server=$here/../../bin/demo-server
dir=$(mktemp -d "${TMPDIR:-/tmp}/remit-demo-XXXXXX")
export REMIT_HOME="$dir/home"
cp -r "$here/workspace" "$dir/workspace"
echo 'API_KEY=not-for-agents' >"$dir/workspace/.env"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
[ -t 1 ] && [ -z "${NO_COLOR:-}" ] || say() { printf '\n$ %s\n' "$*"; }

# The server lives as long as this shell holds the write end of its input.
mkfifo "$dir/hold"
"$server" <"$dir/hold" >"$dir/address" &
exec 9>"$dir/hold"
while [ ! -s "$dir/address" ]; do sleep 0.05; done
address=$(cat "$dir/address")
sed "s/127.0.0.1:8080/$address/" "$here/policy.yaml" >"$dir/policy.yaml"
cp "$here/plan.yaml" "$here/stricter.yaml" "$dir/"
cd "$dir"

say remit policy check policy.yaml
"$remit" policy check policy.yaml

say remit run plan.yaml -p policy.yaml -w workspace --input "service=http://$address"
status=0
"$remit" run plan.yaml -p policy.yaml -w workspace --input "service=http://$address" || status=$?
echo "exit status $status (1: a call failed, 3: one was denied)"
[ "$status" -eq 1 ] || [ "$status" -eq 3 ]

say cat workspace/out/release.md
cat workspace/out/release.md

run=$("$remit" runs --limit 1 --json | sed -n 's/.*"run_id": "\([^"]*\)".*/\1/p')

say remit verify
"$remit" verify

say remit replay "$run"
"$remit" replay "$run"

say remit replay "$run" --policy stricter.yaml
"$remit" replay "$run" --policy stricter.yaml

say remit report "$run"
"$remit" report "$run"

say remit report "$run" --format html -o report.html
"$remit" report "$run" --format html -o report.html

printf '\nAll of it is in %s; look at report.html there.\n' "$dir"
printf 'To look at it in a browser: remit serve, and remit ui in a second terminal.\n'
printf 'To go on by hand: export REMIT_HOME=%s\n' "$REMIT_HOME"
