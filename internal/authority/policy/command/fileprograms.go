package command

// fileList are the programs that copy, move, change and pack files.
var fileList = []program{
	{names: "cp", grammar: grammar{harmless: true, known: `-HLPRTZabdfilnprsuvxc -St= --archive --attributes-only --backup=? --context=? --copy-contents --debug --dereference --force --interactive --keep-directory-symlink --link --no-clobber
		--no-dereference --no-preserve= --no-target-directory --one-file-system --parents --preserve=? --recursive --reflink=? --remove-destination --sparse= --strip-trailing-slashes --suffix= --symbolic-link
		--target-directory= --update=? --verbose --help --version`},
		files: fileWords{into: "t target-directory", rest: reads, last: writes, tree: "*"}},
	{names: "mv", grammar: grammar{harmless: true, known: "-TZbfinuvh -St= --backup=? --context --debug --exchange --force --interactive --no-clobber --no-copy --no-target-directory --strip-trailing-slashes --suffix= --target-directory= --update=? --verbose --help --version"},
		files: fileWords{into: "t target-directory", rest: renames, last: writes, tree: "*"}},
	{names: "ln", grammar: grammar{harmless: true, known: "-FLPTbdfinrsvhw -St= --backup=? --directory --force --interactive --logical --no-dereference --no-target-directory --physical --relative --suffix= --symbolic --target-directory= --verbose --help --version"},
		files: fileWords{into: "t target-directory", rest: reads, last: writes, tree: "*", other: "s symbolic", with: ignored}},
	{names: "install ginstall", grammar: grammar{known: "-CDTZbcdpsv -Sgmot= --backup=? --compare --context=? --directory --group= --mode= --no-target-directory --owner= --preserve-context --preserve-timestamps --strip --suffix= --target-directory= --verbose --help --version"},
		files: fileWords{into: "t target-directory", rest: reads, last: writes, tree: "*", other: "d directory", with: writes}},
	{names: "rm", grammar: grammar{harmless: true, known: "-IRdfirvx --dir --force --interactive=? --no-preserve-root --one-file-system --preserve-root=? --recursive --verbose --help --version"}, files: fileWords{rest: deletes, tree: "r R recursive"}},
	{names: "mkdir", grammar: grammar{harmless: true, known: "-Zpv -m= --context=? --mode= --parents --verbose --help --version"}, files: fileWords{rest: writes, tree: "*"}},
	{names: "rmdir", grammar: grammar{harmless: true, known: "-pv --ignore-fail-on-non-empty --parents --verbose --help --version"}, files: fileWords{rest: deletes, tree: "*"}},
	{names: "unlink", grammar: grammar{harmless: true, known: "--help --version"}, files: fileWords{rest: deletes}},
	{names: "shred", grammar: grammar{harmless: true, known: "-fuvxz -ns= --exact --force --iterations= --random-source= --remove=? --size= --verbose --zero --help --version"}, files: fileWords{read: "random-source", rest: writes}},
	{names: "touch", grammar: grammar{harmless: true, known: "-acfhm -drtA= --date= --no-create --no-dereference --reference= --time= --help --version"}, files: fileWords{rest: writes}},
	{names: "truncate", grammar: grammar{harmless: true, known: "-co -rs= --io-blocks --no-create --reference= --size= --help --version"}, files: fileWords{rest: writes}},
	{names: "chmod chown chgrp", grammar: grammar{harmless: true, known: `-HLPRcfhvrwxXstugoa --changes --dereference --from= --no-dereference --no-preserve-root --preserve-root --quiet --recursive --reference= --silent --verbose --help --version`},
		files: fileWords{first: ignored, rest: writes, unless: "reference r w x X s t u g o a", tree: "R recursive"}},
	{names: "mkfifo mknod", grammar: grammar{harmless: true, known: "-Z -m= --context=? --mode= --help --version"}, files: fileWords{rest: writes}},
	{names: "mktemp", grammar: grammar{harmless: true, known: "-dqutV -p= --directory --dry-run --quiet --suffix= --tmpdir=? --help --version"},
		files: fileWords{write: "p tmpdir", rest: writes, other: "p t u dry-run tmpdir", with: ignored}},
	{names: "sponge", grammar: grammar{harmless: true, known: "-ah"}, files: fileWords{rest: writes}},
	{names: "tee", grammar: grammar{harmless: true, known: "-aip --append --ignore-interrupts --output-error=? --help --version"}, files: fileWords{rest: writes}},
	{names: "gzip gunzip bzip2 bunzip2 xz unxz lzma unlzma", grammar: grammar{harmless: true, digits: true, known: `-LNVcdefhHklnqrstvz0123456789 -SCFMT= --best --compress --decompress --uncompress --extreme --fast --force --format= --check= --keep --license --list --name --no-name --quiet
		--recursive --rsyncable --small --stdout --to-stdout --suffix= --synchronous --test --threads= --memlimit= --verbose --help --long-help --version`},
		files: fileWords{rest: takes, other: "c stdout to-stdout t test l list", with: reads, tree: "r recursive"}},
	{names: "zstd unzstd zstdmt", grammar: grammar{harmless: true, behind: true, known: `-0123456789BCHMTVcdfhklqrtvz -Do= --adapt --asyncio --auto-threads= --check --compress --content-size --decompress --exclude-compressed --fast=? --filelist= --force --format= --keep --list --long=? --no-asyncio --no-check
		--no-content-size --no-dictID --no-pass-through --no-progress --no-sparse --output-dir-flat= --output-dir-mirror= --pass-through --patch-from= --progress --quiet --rm --rsyncable --single-thread --size-hint= --sparse --stdout --stream-size= --test --trace= --uncompress --ultra --verbose --help --version`},
		files: fileWords{read: "D filelist patch-from", write: "o output-dir-flat output-dir-mirror trace", rest: changes, other: "c l o t list output-dir-flat output-dir-mirror stdout test", with: reads, tree: "r"}},
	{names: "lz4 unlz4 lz4cat", grammar: grammar{harmless: true, known: "-0123456789HVXcdfhklmqrtvz -B=? -D= --best --content-size --fast=? --favor-decSpeed --help --keep --list --no-content-size --no-crc --no-frame-crc --no-sparse --quiet --rm --sparse --verbose --version"},
		files: fileWords{read: "D", first: reads, rest: writes, other: "m r list", with: changes}},
	// The option -g starts programs of other systems than Git.
	{names: "patch", grammar: grammar{harmless: true, known: `-ERNZTbcflnstuv -BDFVYdiprz= --backup --backup-if-mismatch --basename-prefix= --batch --binary --context --directory= --dry-run --force --forward --fuzz= --ifdef= --ignore-whitespace --input= --merge=? --no-backup-if-mismatch --normal --output= --posix --prefix= --quiet
		--quoting-style= --read-only= --reject-file= --reject-format= --remove-empty-files --reverse --set-time --set-utc --silent --strip= --suffix= --unified --verbose --version-control= --help --version -o=`},
		files: fileWords{read: "i input", write: "B o output prefix r reject-file", first: changes, rest: reads}},
	{names: "tar", grammar: grammar{bundle: true, digits: true, known: tarKnown},
		files: fileWords{read: "T X files-from exclude-from owner-map group-map", rest: ignored, write: "g listed-incremental index-file volno-file"}, run: byTar},
	{names: "cpio", grammar: grammar{known: "-0aABcdfiklLmnopqrtuvVW -CDEFHIMOR= --extract --create --pass-through --format= --list --verbose --quiet --null --make-directories --unconditional --preserve-modification-time --no-absolute-filenames --absolute-filenames --directory= --file= --owner= --dereference --link --renumber-inodes --sparse --append --reset-access-time --pattern-file= --nonmatching --numeric-uid-gid --no-preserve-owner --dot --block-size= --io-size= --help --version"},
		files: fileWords{read: "E I pattern-file", write: "O F file", rest: ignored, other: "p pass-through", with: writes, puts: "D directory", quiet: "o create p pass-through t list"}},
	{names: "unzip", grammar: grammar{harmless: true, known: "-aAbBcCfhjKlLMnNopPqtTuvVXzZ:^ -dIOx="}, files: fileWords{first: reads, rest: ignored, puts: "d", quiet: "l t p c v z Z T"}},
	// Two letters can be one option of zip, with a value: -lf, -TT. So only bundles that are listed are known.
	{names: "zip", grammar: grammar{digits: true, single: true, known: "-r -q -v -j -m -u -f -d -e -y -D -X -o -S -J -k -@ -rq -qr -rv -vr -rj -jr -rqj -rjq -qrj -r9 -9r -rq9 -r0 -0r -ry -yr -rqy -qry -ru -ur -rm -jq -qj -rX -Xr -rqX -qrX -b*= -n= -t= -x= -i= -P= --recurse-paths --junk-paths --quiet --exclude= --include= --update --freshen --delete --encrypt --symlinks --compression-method= --verbose --help --version"}, files: fileWords{write: "b", sent: "x i include exclude", first: writes, rest: reads, tree: "*", other: "m", with: takes}},
	{names: "dd", grammar: grammar{harmless: true, known: "--help --version"}},
	{names: "fd fdfind", grammar: grammar{known: `-HIuasiFLp0lqV1h -gdEteSoBj= -g -c= --hidden --no-hidden --no-ignore --no-ignore-vcs --no-ignore-parent --unrestricted --case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path --follow --full-path
		--print0 --max-depth= --min-depth= --exact-depth= --exclude= --prune --type= --extension= --size= --changed-within= --changed-before= --owner= --color= --threads= --max-results= --list-details --quiet --show-errors
		--base-directory= --path-separator= --search-path= --strip-cwd-prefix=? --one-file-system --and= --hyperlink=? --format= --ignore-file= --ignore --help --version`}, files: fileWords{read: "ignore-file", rest: ignored}},
	{names: "rsync", grammar: grammar{known: rsyncKnown}, files: fileWords{read: "exclude-from include-from files-from password-file", write: "log-file", rest: reads, last: writes, tree: "*",
		other: "remove-source-files remove-sent-files", with: takes}, run: byRsync},
}

const (
	tarKnown = `-ABGJMOPRSUWZacdhijklmnoprstuvwxz -CHKLNTVXbfg= --absolute-names --acls --add-file= --after-date= --anchored --append --atime-preserve=? --auto-compress --backup=? --block-number --blocking-factor= --bzip2 --catenate
		--check-device --check-links --checkpoint=? --clamp-mtime --compare --compress --concatenate --confirmation --create --delay-directory-restore --delete --dereference --diff --directory= --exclude= --exclude-backups
		--exclude-caches --exclude-caches-all --exclude-caches-under --exclude-from= --exclude-ignore= --exclude-ignore-recursive= --exclude-tag= --exclude-tag-all= --exclude-tag-under= --exclude-vcs --exclude-vcs-ignores --extract
		--file= --files-from= --force-local --format= --full-time --get --group= --group-map= --gunzip --gzip --hard-dereference --hole-detection= --ignore-case --ignore-command-error --ignore-failed-read --ignore-zeros
		--incremental --index-file= --interactive --keep-directory-symlink --keep-newer-files --keep-old-files --label= --level= --list --listed-incremental= --lzip --lzma --lzop --mode= --mtime= --multi-volume --newer=
		--newer-mtime= --no-acls --no-anchored --no-auto-compress --no-check-device --no-delay-directory-restore --no-ignore-case --no-ignore-command-error --no-null --no-overwrite-dir --no-quote-chars= --no-recursion
		--no-same-owner --no-same-permissions --no-seek --no-selinux --no-unquote --no-verbatim-files-from --no-wildcards --no-wildcards-match-slash --no-xattrs --null --numeric-owner --occurrence=? --old-archive
		--one-file-system --one-top-level=? --overwrite --overwrite-dir --owner= --owner-map= --pax-option= --portability --posix --preserve-order --preserve-permissions --quote-chars= --quoting-style= --read-full-records
		--record-size= --recursion --recursive-unlink --remove-files --restrict --same-order --same-owner --same-permissions --seek --selinux --show-defaults --show-omitted-dirs --show-snapshot-field-ranges --show-stored-names
		--show-transformed-names --skip-old-files --sort= --sparse --sparse-version= --starting-file= --strip-components= --suffix= --tape-length= --test-label --to-stdout --totals=? --touch --transform= --uncompress --ungzip
		--unlink-first --unquote --update --utc --verbatim-files-from --verbose --verify --volno-file= --warning= --wildcards --wildcards-match-slash --xattrs --xattrs-exclude= --xattrs-include= --xform= --xz --zstd --usage --help --version`

	rsyncKnown = `-acdghiklmnopqrstuvxzADEHIJKLNOPRSUVWXYy0468 -fTBe= --archive --recursive --relative --no-implied-dirs --backup --backup-dir= --suffix= --update --inplace --append --append-verify --dirs --links --copy-links --copy-unsafe-links
		--safe-links --copy-dirlinks --keep-dirlinks --hard-links --perms --executability --chmod= --acls --xattrs --owner --group --devices --specials --times --omit-dir-times --omit-link-times --super --fake-super --sparse --preallocate
		--dry-run --whole-file --one-file-system --block-size= --rsh= --existing --ignore-existing --remove-source-files --delete --delete-before --delete-during --delete-delay --delete-after --delete-excluded --ignore-errors --force
		--max-delete= --max-size= --min-size= --partial --partial-dir= --delay-updates --prune-empty-dirs --numeric-ids --usermap= --groupmap= --chown= --timeout= --contimeout= --ignore-times --size-only --modify-window= --temp-dir=
		--fuzzy --compare-dest= --copy-dest= --link-dest= --compress --compress-level= --compress-choice= --skip-compress= --cvs-exclude --filter= --exclude= --exclude-from= --include= --include-from= --files-from= --from0 --protect-args
		--port= --sockopts= --blocking-io --stats --8-bit-output --human-readable --progress --itemize-changes --out-format= --log-file= --log-file-format= --password-file= --list-only --bwlimit= --protocol= --iconv= --checksum-seed=
		--checksum --checksum-choice= --ipv4 --ipv6 --verbose --quiet --no-motd --info= --debug= --msgs2stderr --mkpath --open-noatime --no-perms --no-owner --no-group --no-times --no-links --no-recursive --no-relative
		--no-D --no-o --no-g --no-p --no-t --no-r --no-l --no-compress --no-whole-file --no-inc-recursive --inc-recursive --help --version`
)
