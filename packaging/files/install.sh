#!/bin/sh
# Installs remit and remit-hook from a folder of released files on an HTTPS server, after it verified them:
#
#	sh install.sh --from https://example.org/remit/v1.2.3 --key 'ssh-ed25519 AAAA...'
#
# The key is the public key of who made the release. Get it by another way than the release itself. Nothing is installed
# unless the key signed the checksums, and the checksums have the archive.
set -eu

usage='usage: install.sh --from URL --key KEY [--prefix FOLDER]
  --from URL       folder with SHA256SUMS, SHA256SUMS.sig and the archives (or $REMIT_FROM)
  --key KEY        OpenSSH public key that signs releases (or $REMIT_KEY)
  --prefix FOLDER  the programs go to FOLDER/bin (or $REMIT_PREFIX; default: ~/.local)'

fail() {
	printf 'install.sh: %s\nnothing was installed\n' "$1" >&2
	exit 1
}

fetch() {
	curl --fail --silent --show-error --location --proto "$proto" --proto-redir "$proto" --output "$stage/$1" "$from/$1" || fail "$from/$1 could not be downloaded whole"
}

install_remit() {
	from=${REMIT_FROM-} key=${REMIT_KEY-} prefix=${REMIT_PREFIX-}
	while [ $# -gt 0 ]; do
		case $1 in
		--help) printf '%s\n' "$usage"; exit 0 ;;
		--from | --key | --prefix) [ $# -ge 2 ] || fail "$1 needs a value" ;;
		*) fail "$1 is not an option
$usage" ;;
		esac
		case $1 in
		--from) from=$2 ;;
		--key) key=$2 ;;
		--prefix) prefix=$2 ;;
		esac
		shift 2
	done
	[ -n "$from" ] && [ -n "$key" ] || fail "--from and --key are needed
$usage"
	[ -n "$prefix" ] || prefix=${HOME:?}/.local
	from=${from%/}
	case $from in
	https://*) proto='=https' ;;
	http://127.0.0.1:* | http://localhost:*) proto='=http,https' ;;
	*) fail "$from is not an https URL" ;;
	esac
	for tool in curl ssh-keygen sha256sum tar gzip grep mktemp uname; do
		command -v "$tool" >/dev/null || fail "$tool is not installed"
	done
	case $(uname -s)-$(uname -m) in
	Linux-x86_64) arch=amd64 ;;
	Linux-aarch64 | Linux-arm64) arch=arm64 ;;
	*) fail "there is no program for $(uname -s) on $(uname -m); expected Linux on x86_64 or aarch64" ;;
	esac

	bin=$prefix/bin
	mkdir -p "$bin" || fail "$bin cannot be made"
	stage=$(mktemp -d "$bin/.remit-install-XXXXXX") || fail "$bin cannot be written" # on the same disk, so that mv is one step
	trap 'rm -rf "$stage"' EXIT
	trap 'exit 1' HUP INT TERM

	fetch SHA256SUMS
	fetch SHA256SUMS.sig
	printf 'remit namespaces="remit-release" %s\n' "$key" >"$stage/signers"
	ssh-keygen -Y verify -f "$stage/signers" -I remit -n remit-release -s "$stage/SHA256SUMS.sig" <"$stage/SHA256SUMS" >"$stage/said" 2>&1 ||
		fail "the signature of SHA256SUMS is not by the key: $(cat "$stage/said")"
	grep -Ex "[0-9a-f]{64}  remit_[0-9A-Za-z.+~]+_linux_$arch\\.tgz" "$stage/SHA256SUMS" >"$stage/line" || fail "SHA256SUMS has no archive for linux_$arch"
	[ "$(grep -c . "$stage/line")" = 1 ] || fail "SHA256SUMS has several archives for linux_$arch"
	read -r _ archive <"$stage/line"
	fetch "$archive"
	(cd "$stage" && sha256sum -c line >/dev/null 2>&1) || fail "the checksum of $archive is not the signed one"

	tar -xzf "$stage/$archive" -C "$stage" || fail "$archive cannot be unpacked"
	for name in remit-hook remit; do
		set -- "$stage"/remit-*/bin/"$name"
		[ -f "$1" ] && [ ! -L "$1" ] || fail "$archive has no bin/$name"
		[ ! -d "$bin/$name" ] || fail "$bin/$name is a folder"
	done
	for name in remit-hook remit; do # remit last: with it, both are there
		mv -f "$stage"/remit-*/bin/"$name" "$bin/$name" || fail "$bin/$name cannot be replaced"
	done
	printf 'installed %s/remit and remit-hook from %s\n' "$bin" "$archive"
	case :$PATH: in
	*:"$bin":*) ;;
	*) printf 'add %s to your PATH\n' "$bin" ;;
	esac
}

install_remit "$@" # at the end: a script that was cut off runs nothing
