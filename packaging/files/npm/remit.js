#!/usr/bin/env node
// Starts the program from the package of this platform, with the same arguments, streams and exit status.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const manifest = require("../package.json");

function fail(why) {
	process.stderr.write(`${manifest.name}: ${why}\n`);
	process.exit(1);
}

function find() {
	const platform = `${process.platform}-${process.arch}`;
	const packages = manifest.optionalDependencies;
	const name = Object.keys(packages).find((one) => one.endsWith(platform));
	if (name === undefined) {
		fail(`there is no program for ${platform}; expected one of ${Object.keys(packages).join(", ")}`);
	}
	try {
		return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", "remit");
	} catch {
		fail(`the package ${name} is not installed; install ${manifest.name} without --omit=optional, or ${name}@${packages[name]} beside it`);
	}
}

// A terminal sends SIGINT and SIGQUIT to all processes in its foreground, so the program has them already.
function inForeground() {
	const stat = fs.readFileSync("/proc/self/stat", "utf8");
	const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
	return fields[2] === fields[5]; // the process group, and the group in the terminal's foreground
}

let child; // the handlers come first: a signal can arrive as soon as the program runs
for (const signal of ["SIGHUP", "SIGTERM"]) {
	process.on(signal, () => child.kill(signal));
}
for (const signal of ["SIGINT", "SIGQUIT"]) {
	process.on(signal, () => inForeground() || child.kill(signal));
}
child = spawn(find(), process.argv.slice(2), { stdio: "inherit" });
child.on("error", (err) => fail(`the program does not start: ${err.message}`));
child.on("exit", (status, signal) => {
	if (signal === null) {
		process.exit(status);
	}
	process.exitCode = 128 + os.constants.signals[signal]; // for a signal that does not end this process
	process.removeAllListeners(signal);
	process.kill(process.pid, signal);
});
