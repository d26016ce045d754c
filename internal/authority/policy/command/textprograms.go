package command

// textList are the programs that read and write text. Programs that are marked as harmless have no
// option that starts another program.
var textList = []program{
	{names: "cat", grammar: grammar{harmless: true, known: "-AETbenstuv --number --number-nonblank --show-all --show-ends --show-nonprinting --show-tabs --squeeze-blank --help --version"}, files: fileWords{rest: reads}},
	{names: "tac", grammar: grammar{harmless: true, known: "-br -s= --before --regex --separator= --help --version"}, files: fileWords{rest: reads}},
	{names: "rev zcat bzcat xzcat lzcat zstdcat more", grammar: grammar{harmless: true, digits: true, known: "-0Vhdlfpcuseqkrtv -nS= --help --version --zero --force --list --quiet --silent --logical --print-over --no-pause --clean-print --squeeze --plain --lines= --exit-on-eof --keep --decompress --stdout --test --verbose --suffix="}, files: fileWords{rest: reads}},
	{names: "wc", grammar: grammar{harmless: true, known: "-Lclmw --bytes --chars --files0-from= --lines --max-line-length --words --total= --help --version"}, files: fileWords{read: "files0-from", rest: reads}},
	{names: "comm", grammar: grammar{harmless: true, known: "-123iz --check-order --nocheck-order --output-delimiter= --total --zero-terminated --help --version"}, files: fileWords{rest: reads}},
	{names: "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum", grammar: grammar{harmless: true,
		known: "-bctwzrsUp -al= --binary --check --ignore-missing --quiet --status --strict --tag --untagged --text --warn --zero --length= --algorithm= --base64 --debug --raw --sysv --help --version"}, files: fileWords{rest: reads}},
	{names: "nl", grammar: grammar{harmless: true, known: `-p -bdfhilnsvw= --body-numbering= --section-delimiter= --footer-numbering= --header-numbering= --line-increment= --join-blank-lines=
		--number-format= --no-renumber --number-separator= --starting-line-number= --number-width= --help --version`}, files: fileWords{rest: reads}},
	{names: "fold fmt expand unexpand", grammar: grammar{harmless: true, digits: true, known: `-abcisu -wgpt= --bytes --spaces --width= --goal= --prefix= --crown-margin --split-only --tagged-paragraph
		--uniform-spacing --initial --tabs= --all --first-only --help --version`}, files: fileWords{rest: reads}},
	{names: "column", grammar: grammar{harmless: true, known: `-JLVdehtx -EHNORTWcilnoprs= --fillrows --json --keep-empty-lines --output-separator= --output-width= --separator= --table --table-columns= --table-columns-limit=
		--table-header-repeat --table-hide= --table-name= --table-noextreme= --table-noheadings --table-order= --table-right= --table-truncate= --table-wrap= --table-empty-lines --tree= --tree-id= --tree-parent= --help --version`}, files: fileWords{rest: reads}},
	{names: "head", grammar: grammar{harmless: true, digits: true, known: "-qvz -cn= --bytes= --lines= --quiet --silent --verbose --zero-terminated --help --version"}, files: fileWords{rest: reads}},
	{names: "tail", grammar: grammar{harmless: true, digits: true, known: "-Ffqvzr -cnsb= --bytes= --follow=? --lines= --max-unchanged-stats= --pid= --quiet --retry --silent --sleep-interval= --verbose --zero-terminated --help --version"}, files: fileWords{rest: reads}},
	{names: "less", grammar: grammar{harmless: true, digits: true, known: `-aABcCdeEfFgGiIJKLmMnNqQrRsSuUvVwWX~ -bhjkoOpPtTxyzD= --chop-long-lines --RAW-CONTROL-CHARS --raw-control-chars --quit-if-one-screen --no-init
		--LINE-NUMBERS --line-numbers --ignore-case --IGNORE-CASE --quit-at-eof --QUIT-AT-EOF --squeeze-blank-lines --log-file= --LOG-FILE= --mouse --tilde --status-column --help --version`},
		files: fileWords{read: "k T", write: "o O log-file LOG-FILE", rest: reads}, run: byLess},
	{names: "bat batcat", grammar: grammar{known: `-ApnuPfVh -lHrm= --show-all --plain --language= --highlight-line= --file-name= --diff --diff-context= --tabs= --wrap= --chop-long-lines --terminal-width= --number
		--color= --italic-text= --decorations= --force-colorization --paging= --map-syntax= --theme= --list-themes --style= --line-range= --list-languages --unbuffered --no-config --no-pager --squeeze-blank --squeeze-limit= --help --version`},
		files: fileWords{rest: reads}},
	{names: "od", grammar: grammar{harmless: true, known: "-abcdfhilosvx -ANSjt= -w=? --address-radix= --endian= --format= --output-duplicates --read-bytes= --skip-bytes= --strings=? --traditional --width=? --help --version"}, files: fileWords{rest: reads}},
	{names: "hexdump hd", grammar: grammar{harmless: true, known: `-CVbcdhovxX -efns= -L=? --canonical --color=? --format= --format-file= --length= --no-squeezing --one-byte-char --one-byte-hex --one-byte-octal --skip=
		--two-bytes-decimal --two-bytes-hex --two-bytes-octal --help --version`}, files: fileWords{read: "f format-file", rest: reads}},
	{names: "xxd", grammar: grammar{harmless: true, single: true, known: "-a -b -c= -C -d -e -E -g= -h -i -l= -len= -n= -name= -o= -p -ps -plain -postscript -r -revert -R= -s= -seek= -u -v -cols= -bits -include -groupsize= -version -l* -s* -c* -g* -o*"},
		files: fileWords{first: reads, rest: writes}},
	{names: "strings", grammar: grammar{lists: true, harmless: true, digits: true, known: "-adfhowvV -nteTsU= --all --data --bytes= --print-file-name --radix= --include-all-whitespace --target= --encoding= --unicode= --output-separator= --help --version"}, files: fileWords{rest: reads}},
	{names: "base64 base32 basenc", grammar: grammar{harmless: true, known: "-dDi -wb= --decode --ignore-garbage --wrap= --base16 --base2lsbf --base2msbf --base32 --base32hex --base64 --base64url --z85 --help --version"}, files: fileWords{rest: reads}},
	{names: "sort", grammar: grammar{known: `-MRVbdfghimnrsuzcC -STkot= --batch-size= --buffer-size= --check=? --debug --dictionary-order --field-separator= --files0-from= --general-numeric-sort --human-numeric-sort --ignore-case
		--ignore-leading-blanks --ignore-nonprinting --key= --merge --month-sort --numeric-sort --output= --parallel= --random-sort --random-source= --reverse --sort= --stable --temporary-directory= --unique --version-sort
		--zero-terminated --help --version`}, files: fileWords{read: "files0-from random-source", write: "o output T temporary-directory", rest: reads}},
	{names: "shuf", grammar: grammar{harmless: true, known: "-erz -ino= --echo --head-count= --input-range= --output= --random-source= --repeat --zero-terminated --help --version"},
		files: fileWords{read: "random-source", write: "o output", rest: reads, other: "e echo i input-range", with: ignored}},
	{names: "iconv", grammar: grammar{harmless: true, known: "-V?cls -fot= --from-code= --list --output= --silent --to-code= --verbose --help --usage --version"}, files: fileWords{write: "o output", rest: reads}},
	{names: "pr", grammar: grammar{harmless: true, digits: true, known: `-FJTacdfmrtv -DNWhlow= -einsS=? --across --columns= --date-format= --double-space --expand-tabs=? --first-line-number= --form-feed --header= --indent= --join-lines --length= --merge --no-file-warnings --number-lines=? --omit-header
		--omit-pagination --output-tabs=? --page-width= --pages= --sep-string=? --separator=? --show-control-chars --show-nonprinting --width= --help --version`}, files: fileWords{rest: reads}},
	{names: "ptx", grammar: grammar{harmless: true, known: "-AGORTfrt -FMSWbgiow= --auto-reference --break-file= --flag-truncation= --format= --gap-size= --ignore-case --ignore-file= --macro-name= --only-file= --references --right-side-refs --sentence-regexp= --traditional --typeset-mode --width= --word-regexp= --help --version"},
		files: fileWords{read: "b break-file i ignore-file o only-file", rest: reads, other: "G traditional", with: writes, first: reads}},
	{names: "tsort", grammar: grammar{harmless: true, known: "--help --version"}, files: fileWords{rest: reads}},
	{names: "look", grammar: grammar{harmless: true, known: "-abdfhV -t= --alphanum --alternative --ignore-case --terminate= --help --version"}, files: fileWords{first: ignored, rest: reads}},
	{names: "date", grammar: grammar{harmless: true, known: "-Rjnu -dfrsv= -I=? --date= --debug --file= --iso-8601=? --reference= --resolution --rfc-2822 --rfc-3339= --rfc-email --set= --universal --utc --help --version"}, files: fileWords{read: "f file", rest: ignored}},
	{names: "du", grammar: grammar{harmless: true, known: `-0DHLPSabcghklmnsx -BIXdt= --all --apparent-size --block-size= --bytes --count-links --dereference --dereference-args --exclude= --exclude-from= --files0-from= --human-readable --inodes --max-depth= --no-dereference --null --one-file-system
		--separate-dirs --si --summarize --threshold= --time=? --time-style= --total --help --version`}, files: fileWords{read: "X exclude-from files0-from", rest: ignored}},
	// The option -C writes a file that is named after another one, and -z starts unpackers.
	{names: "file", grammar: grammar{harmless: true, known: "-0EILNSbcdhiklnprsv -FPefm= --apple --brief --checking-printout --debug --dereference --exclude= --exclude-quiet= --extension --files-from= --keep-going --list --magic-file= --mime --mime-encoding --mime-type --no-buffer --no-dereference --no-pad --no-sandbox --parameter= --preserve-date --print0 --raw --separator= --special-files --help --version"},
		files: fileWords{read: "f files-from m magic-file", rest: reads, tree: "*"}},
	// The option -R writes a file in each folder.
	{names: "tree", grammar: grammar{harmless: true, behind: true, known: `-ACDFJNQSUXacdfghilnpqrstuvxy -HILPTo= --acl --caselinks --charset= --compress= --device --dirsfirst --du --filelimit= --filesfirst --fflinks --fromfile --fromtabfile --gitfile= --gitignore --hintro= --houtro= --hyperlink --ignore-case --info --infofile= --inodes
		--matchdirs --metafirst --nolinks --noreport --opt-toggle --prune --scheme= --selinux --si --sort= --timefmt= --help --version`},
		files: fileWords{read: "gitfile hintro houtro infofile", write: "o", rest: ignored, other: "fromfile fromtabfile", with: reads}},
	{names: "jq", grammar: grammar{harmless: true, known: `-CMRSVabcefhjnrs -L= --arg== --args --argfile== --argjson== --ascii --ascii-output --binary --build-configuration --color-output --compact-output --exit-status --from-file --indent= --join-output --jsonargs --library-path= --monochrome-output --null-input --raw-input --raw-output
		--raw-output0 --rawfile== --seq --slurp --slurpfile== --sort-keys --stream --stream-errors --tab --unbuffered --help --version`},
		files: fileWords{read: "argfile rawfile slurpfile", first: ignored, rest: reads, unless: "f from-file", texts: "args jsonargs"}, run: byJq},
	// Programs of this name differ in -s, -f and -L.
	{names: "yq", grammar: grammar{harmless: true, known: `-CMNPRSVYcehijnruvy -Iopw= --arg== --args --argjson== --colors --compact-output --exit-status --in-place --indent= --indentless-lists --inplace --input-format= --no-colors --no-doc --null-input --output-format= --prettyPrint --rawfile== --raw-input --raw-output --slurpfile== --sort-keys --tojson
		--unwrapScalar=? --verbose --width= --yaml-output --yaml-roundtrip --help --version`},
		files: fileWords{read: "rawfile slurpfile", first: ignored, rest: reads, texts: "args", other: "i in-place inplace", with: changes}, run: byJq},
	{names: "uniq", grammar: grammar{harmless: true, digits: true, known: `-Dcdiuz -fsw= --all-repeated=? --check-chars= --count --group=? --ignore-case --repeated --skip-chars= --skip-fields= --unique --zero-terminated --help --version`}, files: fileWords{first: reads, rest: writes}},
	{names: "cut", grammar: grammar{harmless: true, known: "-nsz -bcdf= --bytes= --characters= --complement --delimiter= --fields= --only-delimited --output-delimiter= --zero-terminated --help --version"}, files: fileWords{rest: reads}},
	{names: "paste", grammar: grammar{harmless: true, known: "-sz -d= --delimiters= --serial --zero-terminated --help --version"}, files: fileWords{rest: reads}},
	{names: "join", grammar: grammar{harmless: true, known: "-iz -12aejotv= --check-order --header --ignore-case --nocheck-order --zero-terminated --help --version"}, files: fileWords{rest: reads}},
	{names: "cmp zcmp bzcmp xzcmp", grammar: grammar{harmless: true, known: "-blsv -in= --bytes= --ignore-initial= --print-bytes --quiet --silent --verbose --help --version"}, files: fileWords{rest: reads}},
	{names: "diff colordiff zdiff bzdiff xzdiff", grammar: grammar{harmless: true, digits: true, known: `-BENTZabcdeilnpqrstuvwyPH -CDFISUWXxL= --GTYPE-group-format= --LTYPE-line-format= --old-line-format= --new-line-format= --unchanged-line-format=
		--old-group-format= --new-group-format= --unchanged-group-format= --changed-group-format= --brief --color=? --context=? --ed --exclude= --exclude-from= --expand-tabs --from-file= --horizon-lines= --ifdef= --ignore-all-space
		--ignore-blank-lines --ignore-case --ignore-file-name-case --ignore-matching-lines= --ignore-space-change --ignore-tab-expansion --ignore-trailing-space --initial-tab --label= --left-column --line-format= --minimal
		--new-file --no-dereference --no-ignore-file-name-case --normal --paginate --palette= --rcs --recursive --report-identical-files --show-c-function --show-function-line= --side-by-side --speed-large-files --starting-file=
		--strip-trailing-cr --suppress-blank-empty --suppress-common-lines --tabsize= --text --to-file= --unidirectional-new-file --unified=? --width= --help --version`},
		files: fileWords{read: "X exclude-from from-file to-file", rest: reads, tree: "r recursive"}},
	{names: "diff3", grammar: grammar{known: "-3AETXaeimx -L= --easy-only --ed --initial-tab --label= --merge --overlap-only --show-all --show-overlap --strip-trailing-cr --text --help --version"}, files: fileWords{rest: reads}},
	{names: "sdiff", grammar: grammar{known: "-BEHWZabdilst -Iow= --expand-tabs --ignore-all-space --ignore-blank-lines --ignore-case --ignore-matching-lines= --ignore-space-change --ignore-tab-expansion --ignore-trailing-space --left-column --minimal --output= --speed-large-files --strip-trailing-cr --suppress-common-lines --tabsize= --text --width= --help --version"},
		files: fileWords{write: "o output", rest: reads}},
	{names: "split", grammar: grammar{known: "-deux -Cablnt= --additional-suffix= --bytes= --elide-empty-files --hex-suffixes=? --line-bytes= --lines= --number= --numeric-suffixes=? --separator= --suffix-length= --unbuffered --verbose --help --version"},
		files: fileWords{first: reads, rest: writes}},
	{names: "csplit", grammar: grammar{harmless: true, known: "-kqsz -bfn= --digits= --elide-empty-files --keep-files --prefix= --quiet --silent --suffix-format= --suppress-matched --help --version"},
		files: fileWords{first: reads, rest: ignored, puts: "f prefix"}},
	{names: "grep egrep fgrep zgrep zegrep zfgrep bzgrep xzgrep", grammar: grammar{harmless: true, digits: true, known: grepKnown},
		files: fileWords{read: "f file exclude-from", first: ignored, rest: reads, unless: "e f regexp file", tree: "r R recursive dereference-recursive d directories"}},
	{names: "rgrep", grammar: grammar{harmless: true, digits: true, known: grepKnown},
		files: fileWords{read: "f file exclude-from", first: ignored, rest: reads, unless: "e f regexp file", tree: "*"}},
	{names: "rg", grammar: grammar{known: ripgrepKnown}, files: fileWords{read: "f file ignore-file", first: ignored, rest: reads, unless: "e f regexp file files type-list", tree: "*"}},
	{names: "ag ack", grammar: grammar{digits: true, known: `-acDfglLiInoQrRsStuUvVwzchH -ABCGm= --after=? --before=? --context=? --all-types --all-text --ackmate --break --nobreak --group --nogroup --color --nocolor --column --count
		--depth= --files-with-matches --files-without-matches --filename --nofilename --file-search-regex= --literal --follow --nofollow --heading --noheading --hidden --ignore= --ignore-dir= --ignore-case --max-count= --numbers
		--nonumbers --null --only-matching --print-long-lines --recurse --no-recurse --smart-case --case-sensitive --skip-vcs-ignores --stats --unrestricted --invert-match --width= --word-regexp --search-zip --search-binary
		--go --js --ts --python --ruby --rust --java --cpp --cc --html --css --json --yaml --markdown --php --shell --perl --type= --nopager --help --version`},
		files: fileWords{first: ignored, rest: reads, tree: "*"}},
	{names: "sed gsed", grammar: grammar{known: `-Enrsuz -efl= -i=? --debug --expression= --file= --follow-symlinks --in-place=? --line-length= --null-data --zero-terminated --posix --quiet --regexp-extended --sandbox --separate --silent --unbuffered --help --version`},
		files: fileWords{read: "f file", first: ignored, rest: reads, unless: "e f expression file", other: "i in-place", with: changes}, run: bySed},
	{names: "awk gawk mawk nawk original-awk", grammar: grammar{lead: true, known: "-S -Fvfi= --field-separator= --assign= --sandbox --file= --include= --help --version"},
		files: fileWords{read: "f file i include", first: ignored, rest: reads, unless: "f file"}, run: byAwk},
}

const (
	grepKnown = `-EFGHILNPRTUVZabchilnoqrsvwxzy -ABCDdefm= --after-context= --basic-regexp --before-context= --binary --binary-files= --byte-offset --color=? --colour=? --context=? --count --dereference-recursive --devices=
		--directories= --exclude= --exclude-dir= --exclude-from= --extended-regexp --file= --files-with-matches --files-without-match --fixed-strings --group-separator= --ignore-case --include= --initial-tab --invert-match
		--label= --line-buffered --line-number --line-regexp --max-count= --no-filename --no-group-separator --no-ignore-case --no-messages --null --null-data --only-matching --perl-regexp --quiet --recursive --regexp= --silent
		--text --with-filename --word-regexp --help --version`

	ripgrepKnown = `-FHILNPSUVacbhilnopqsuvwx0z. -ABCefgjmMtTEdr= --after-context= --before-context= --context= --regexp= --file= --glob= --iglob= --type= --type-not= --type-add= --type-clear= --type-list --max-count= --max-depth=
		--maxdepth= --max-columns= --max-columns-preview --max-filesize= --threads= --encoding= --replace= --sort= --sortr= --sort-files --color= --colors= --path-separator= --ignore-file= --ignore-file-case-insensitive
		--context-separator= --no-context-separator --field-context-separator= --field-match-separator= --engine= --dfa-size-limit= --regex-size-limit= --pre-glob= --auto-hybrid-regex --binary --block-buffered --line-buffered
		--byte-offset --case-sensitive --ignore-case --smart-case --column --count --count-matches --crlf --null-data --debug --trace --files --files-with-matches --files-without-match --fixed-strings --follow --glob-case-insensitive
		--heading --no-heading --hidden --no-hidden --invert-match --json --line-number --no-line-number --line-regexp --mmap --no-mmap --multiline --multiline-dotall --no-ignore --no-ignore-dot --no-ignore-exclude --no-ignore-files
		--no-ignore-global --no-ignore-messages --no-ignore-parent --no-ignore-vcs --ignore --no-messages --no-pcre2-unicode --no-unicode --no-config --no-require-git --null --one-file-system --only-matching --passthru --passthrough
		--pcre2 --pcre2-version --pretty --quiet --search-zip --no-search-zip --stats --stop-on-nonmatch --text --no-text --trim --no-trim --unrestricted --vimgrep --with-filename --no-filename --word-regexp --hyperlink-format= --generate= --help --version`
)
