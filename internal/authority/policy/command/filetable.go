package command

import (
	"strings"
	"sync"
)

// fileTable holds the programs whose file arguments are known, by base name.
var fileTable = sync.OnceValue(func() map[string]*fileWords {
	m := map[string]*fileWords{}
	for i := range fileList {
		for _, n := range strings.Fields(fileList[i].names) {
			m[n] = &fileList[i].fileWords
		}
	}
	return m
})

const (
	patternLong = `regexp file max-count after-context before-context context directories devices include exclude exclude-from
		exclude-dir label binary-files group-separator`
	ripgrepLong = `regexp file glob iglob type type-not type-add type-clear max-count max-depth max-columns max-filesize threads encoding
		replace sort sortr color colors path-separator ignore-file after-context before-context context context-separator engine
		dfa-size-limit regex-size-limit pre pre-glob`
	curlLong = `output upload-file data data-ascii data-binary data-raw data-urlencode json form form-string config cert key cacert capath
		cookie cookie-jar dump-header netrc-file header user user-agent url request referer proxy max-time connect-timeout retry retry-delay
		write-out range limit-rate output-dir trace trace-ascii stderr resolve interface url-query key-type cert-type pass`
	wgetLong = `output-document output-file append-output input-file directory-prefix post-file body-file post-data body-data method header
		user password user-agent referer tries timeout wait quota accept reject level domains exclude-domains load-cookies save-cookies
		ca-certificate certificate private-key`
	rsyncLong = `exclude include exclude-from include-from files-from filter rsh rsync-path port bwlimit timeout max-size min-size log-file
		password-file partial-dir temp-dir backup-dir suffix compare-dest copy-dest link-dest chmod chown out-format info debug`
)

var fileList = []struct {
	names string
	fileWords
}{
	{"cat tac rev wc comm more md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum zcat bzcat xzcat",
		fileWords{long: "files0-from", read: "files0-from", rest: reads}},
	{"nl", fileWords{values: "bdfhilnsvw", long: "body-numbering section-delimiter footer-numbering header-numbering line-increment number-format number-separator starting-line-number number-width", rest: reads}},
	{"fold fmt expand unexpand", fileWords{values: "wgpt", long: "width tabs goal prefix", rest: reads}},
	{"column", fileWords{values: "csoNRTEHW", long: "separator output-separator output-width table-columns", rest: reads}},
	{"head tail", fileWords{values: "cns", long: "bytes lines pid sleep-interval max-unchanged-stats", rest: reads}},
	{"less", fileWords{values: "bhjkoOpPtTxyz", long: "log-file", read: "k", write: "o O log-file", rest: reads}},
	{"bat batcat", fileWords{values: "lHrm", long: "language line-range highlight-line theme style wrap tabs map-syntax file-name paging color decorations terminal-width", rest: reads}},
	{"od", fileWords{values: "AjNSt", attached: "w", long: "address-radix skip-bytes read-bytes format", rest: reads}},
	{"hexdump hd", fileWords{values: "efns", read: "f", rest: reads}},
	{"xxd", fileWords{values: "cglosR", first: reads, rest: writes}},
	{"strings", fileWords{values: "nteTsU", rest: reads}},
	{"base64 base32 basenc", fileWords{values: "w", long: "wrap", rest: reads}},
	{"sort", fileWords{values: "ktSTo", long: "output key field-separator buffer-size temporary-directory files0-from parallel batch-size random-source compress-program",
		read: "files0-from", write: "o output", rest: reads}},
	{"uniq", fileWords{values: "fsw", first: reads, rest: writes}},
	{"cut", fileWords{values: "bcdf", long: "bytes characters delimiter fields output-delimiter", rest: reads}},
	{"paste", fileWords{values: "d", long: "delimiters", rest: reads}},
	{"join", fileWords{values: "12jaeotv", rest: reads}},
	{"cmp", fileWords{values: "ni", long: "bytes ignore-initial", rest: reads}},
	{"diff colordiff", fileWords{values: "CUIxXFSWLD", long: "context unified ignore-matching-lines exclude exclude-from starting-file width label ifdef", read: "X exclude-from",
		rest: reads, tree: "r recursive"}},
	{"split", fileWords{values: "abClnt", attached: "dx", long: "suffix-length bytes line-bytes lines number separator additional-suffix filter", first: reads, rest: writes}},
	{"grep egrep fgrep zgrep", fileWords{values: "efmABCdD", long: patternLong, read: "f file exclude-from", first: ignored, rest: reads, unless: "e f regexp file",
		tree: "r R recursive dereference-recursive d directories"}},
	{"rgrep", fileWords{values: "efmABCdD", long: patternLong, read: "f file", first: ignored, rest: reads, unless: "e f regexp file", tree: "*"}},
	{"rg", fileWords{values: "ABCefgjmMtTEdr", long: ripgrepLong, read: "f file ignore-file", first: ignored, rest: reads, unless: "e f regexp file files type-list", tree: "*"}},
	{"ag ack", fileWords{values: "ABCGm", first: ignored, rest: reads, tree: "*"}},
	{"sed gsed", fileWords{values: "efl", attached: "i", long: "expression file line-length", read: "f file", first: ignored, rest: reads, unless: "e f expression file",
		other: "i in-place", with: changes}},
	{"awk gawk mawk nawk original-awk", fileWords{values: "Fvfi", long: "field-separator assign file include", read: "f file i include", first: ignored, rest: reads, unless: "f file"}},
	{"cp", fileWords{values: "tS", long: "target-directory suffix", into: "t target-directory", rest: reads, last: writes, tree: "*"}},
	{"mv", fileWords{values: "tS", long: "target-directory suffix", into: "t target-directory", rest: takes, last: writes, tree: "*"}},
	{"ln", fileWords{values: "tS", long: "target-directory suffix", into: "t target-directory", rest: reads, last: writes, tree: "*", other: "s symbolic", with: ignored}},
	{"install ginstall", fileWords{values: "gmotS", long: "group mode owner target-directory suffix", into: "t target-directory", rest: reads, last: writes, tree: "*",
		other: "d directory", with: writes}},
	{"rm", fileWords{rest: deletes, tree: "r R recursive"}},
	{"mkdir", fileWords{values: "m", long: "mode", rest: writes, tree: "*"}},
	{"rmdir", fileWords{rest: deletes, tree: "*"}},
	{"unlink", fileWords{rest: deletes}},
	{"shred", fileWords{values: "ns", long: "iterations size random-source", rest: writes}},
	{"touch", fileWords{values: "dtr", long: "date time reference", rest: writes}},
	{"truncate", fileWords{values: "sr", long: "size reference", rest: writes}},
	{"chmod chown chgrp", fileWords{long: "reference from", first: ignored, rest: writes, unless: "reference", tree: "R recursive"}},
	{"tee", fileWords{rest: writes}},
	{"gzip gunzip bzip2 bunzip2 xz unxz", fileWords{values: "S", long: "suffix", rest: takes, other: "c stdout to-stdout t test l list", with: reads, tree: "r recursive"}},
	{"tar", fileWords{values: "fCTXIFHbgKLNV", long: "file directory files-from exclude-from exclude strip-components transform owner group mode mtime newer",
		read: "T X files-from exclude-from", rest: reads, other: "x extract get t list d diff compare", with: ignored, tree: "*", bundle: true}},
	{"unzip", fileWords{values: "d", first: reads, rest: ignored}},
	{"zip", fileWords{values: "bnt", first: writes, rest: reads, tree: "*"}},
	{"curl", fileWords{values: "AbcCdDeEFHKmoPQrtTuUwXxyYz", long: curlLong, read: "T K E upload-file config cert key netrc-file", sent: "d data data-binary data-ascii data-urlencode json F form H header b cookie", write: "o c D output cookie-jar dump-header trace trace-ascii stderr",
		rest: ignored}},
	{"wget", fileWords{values: "aABDeiIloOPQRtTUwX", long: wgetLong, read: "i input-file post-file body-file load-cookies private-key certificate",
		write: "O o a output-document output-file append-output save-cookies", rest: ignored}},
	{"rsync", fileWords{values: "efMTB", long: rsyncLong, read: "exclude-from include-from files-from password-file", write: "log-file", rest: reads, last: writes, tree: "*"}},
	{"sh bash dash ash ksh mksh rbash", fileWords{values: "oO", long: "init-file rcfile", read: "init-file rcfile", first: reads, rest: ignored, unless: "c s"}},
}
