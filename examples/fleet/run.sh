#!/bin/sh
# Shows several machines on this one: PostgreSQL, two nodes, and a worker. A node is killed in
# the middle of an agent's turn, and the other one goes on. Everything is in a temporary folder.
set -eu
remit=${REMIT:-bin/remit}
dir=$(mktemp -d) && chmod 755 "$dir"
pids=
as=
[ "$(id -u)" != 0 ] || as="runuser -u postgres --"
bin=$(find /usr/lib/postgresql -type d -name bin 2>/dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || { echo "PostgreSQL is not installed: apt-get install postgresql" >&2; exit 1; }
end() {
	for p in $pids; do kill "$p" 2>/dev/null || true; done
	$as "$bin/pg_ctl" -D "$dir/pg/data" -m immediate stop >/dev/null 2>&1 || true
	rm -rf "$dir"
}
trap end EXIT
trap 'exit 130' INT TERM
say() { printf '\n== %s\n' "$*"; }
until_true() { # until_true WHAT COMMAND…
	what=$1; shift
	for _ in $(seq 200); do if "$@" >/dev/null 2>&1; then return 0; fi; sleep 0.1; done
	echo "$what: never" >&2; cat "$dir"/*.log >&2; exit 1
}

say "PostgreSQL, in $dir"
mkdir "$dir/pg" "$dir/home" "$dir/home/capabilities" "$dir/work" "$dir/work/out" "$dir/far"
[ -z "$as" ] || chown postgres "$dir/pg"
$as "$bin/initdb" -A trust -U remit -D "$dir/pg/data" >/dev/null
$as "$bin/pg_ctl" -w -D "$dir/pg/data" -l "$dir/pg/log" -o "-c listen_addresses= -c unix_socket_directories=$dir/pg" start >/dev/null
"$bin/createdb" -h "$dir/pg" -U remit remit
cat >"$dir/home/config.yaml" <<X
ledger: {database: "postgres:///remit?host=$dir/pg&user=remit", lease: 2s}
X
cat >"$dir/home/capabilities/shell.yaml" <<X
id: shell
name: Shell
description: runs commands
version: 1
tools:
  - {tool: shell.run, name: run}
X
cat >"$dir/policy.yaml" <<X
version: 1
name: demo
api: {allow: ["*"]}
models: {allow: ["*"]}
files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
commands: {allow: ["sleep *", "cp **"]}
where: [remote, local]   # a worker if one is connected to the node, else the node's machine
delegate: {actions: [api, files.read, files.write, commands, models, tools], to: ["*"], depth: 8}
X
cat >"$dir/work/script.yaml" <<X
- tool_calls: [{name: run, args: {argv: [sleep, "5"]}}]
- tool_calls: [{name: run, args: {argv: [cp, notes.txt, out/copy.txt]}}]
- {text: "Done.", repeat: true}
X
echo "written before the node was killed" >"$dir/work/notes.txt"
export REMIT_HOME="$dir/home"
"$remit" db migrate

say "two nodes, and a worker that joins the second one"
serve() { "$remit" serve --listen "127.0.0.1:$1" --workers "127.0.0.1:$2" -p "$dir/policy.yaml" -w "$dir/work" >"$dir/node-$1.log" 2>&1 & pids="$pids $!"; }
serve 18651 18661; first=$!
until_true "the first node" curl -fsS http://127.0.0.1:18651/readyz
serve 18652 18662
until_true "the second node" curl -fsS http://127.0.0.1:18652/readyz
"$remit" worker token --name build-1 >"$dir/join.token"
REMIT_HOME="$dir/far" "$remit" worker --join https://127.0.0.1:18662 --token "$dir/join.token" >"$dir/worker.log" 2>&1 & pids="$pids $!"
until_true "the worker" grep -q connected "$dir/worker.log"
"$remit" workers

say "an agent's turn begins on the first node: sleep 5, then cp"
token=$(cat "$dir/home/keys/admin.token")
ask() { curl -fsS -X "$1" -H "Authorization: Bearer $token" -H 'Content-Type: application/json' -H 'Prefer: respond-async' ${3:+-d "$3"} "http://127.0.0.1:$2"; }
id() { sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -n 1; }
agent=$(ask POST 18651/v1/agents '{"name":"Demo","model":"scripted:script.yaml","capabilities":["shell"]}' | tr ',' '\n' | id)
session=$(ask POST 18651/v1/sessions "{\"agent_id\":\"$agent\"}" | tr ',' '\n' | id)
ask POST "18651/v1/sessions/$session/messages" '{"content":"go"}' >/dev/null
sleep 2

say "the first node is killed in the middle of the turn (kill -9)"
kill -9 "$first"
idle() { ask GET "18652/v1/sessions/$session" | tr ',' '\n' | grep -q '"status": *"idle"'; }
until_true "the turn's end on the second node" idle

say "the second node went on; what was cut off is not repeated"
"$remit" runs
"$remit" show last
cat "$dir/worker.log"

say "the whole ledger is verified"
"$remit" verify
echo
echo "The first command's outcome is unknown, and it was not made again. The second one ran on the worker."
