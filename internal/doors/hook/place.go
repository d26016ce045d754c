package hook

import (
	"cmp"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/tool"
)

// Words in an argument's name.
var (
	pathWords    = strings.Fields("path paths file files filename filenames filepath filepaths pathname pathnames dir dirs directory directories folder folders cwd workdir uri")
	globWords    = strings.Fields("glob globs")
	excludeWords = strings.Fields("exclude excludes excluded ignore ignores ignored skip skipped extension extensions")
	commandWords = strings.Fields("command commands cmd cmds script scripts commandline cmdline argv")
	programWords = strings.Fields("program executable exec exe bin binary")
	argsWords    = strings.Fields("args arguments argv params parameters")
	runWords     = strings.Fields("shell bash sh zsh powershell run exec execute entrypoint args arguments")
	urlWords     = strings.Fields("url urls uri uris href link links endpoint webhook")
	hostWords    = strings.Fields("host hosts hostname hostnames domain domains site sites website websites webpage page origin origins remote remotes repo repos repository server servers address addresses proxy proxies mirror registry target callback feed base")
)

// strength is how strongly an argument's names suggest a use.
type strength uint8

const (
	unnamed strength = iota
	around           // a name around the argument says so
	hinted           // a word of the argument's own name says so
	named            // the argument's own name says so
)

// below is the strength for the content of an argument.
func (s strength) below() strength { return min(s, around) }

// belowName is below, where a hint is about the argument's own text alone.
func (s strength) belowName() strength {
	if s == hinted {
		return unnamed
	}
	return s.below()
}

// place is an argument's place, and how strongly its names suggest each use.
type place struct {
	name               string // as files[0].path
	path, command, url strength
	excluded           bool // the name says that the tool leaves these files out
}

// endsWith reports whether a name's last word, or its last two words as one, is in a list; has, whether any of its words is,
// or the end of one.
func endsWith(name string, list []string) (ends, has bool) {
	words := tool.Words(name)
	for len(words) > 1 && strings.Trim(words[len(words)-1], "0123456789") == "" {
		words = words[:len(words)-1] // path_1
	}
	for i, w := range words {
		w = strings.TrimRight(w, "0123456789")
		known := slices.Contains(list, w) || i > 0 && slices.Contains(list, words[i-1]+w)
		ends = known && i == len(words)-1
		has = has || known || slices.ContainsFunc(list, func(known string) bool { return len(known) > 2 && strings.HasSuffix(w, known) })
	}
	return ends, has
}

// says is how strongly a name says a use. Words of hints only hint.
func says(name string, words, hints []string) strength {
	ends, has := endsWith(name, words)
	hint, _ := endsWith(name, hints)
	switch {
	case ends:
		return named
	case has || hint:
		return hinted
	}
	return unnamed
}

// field is the place of a field in an object.
func (p place) field(name string) place {
	in := place{name: clip.Prefix(strings.TrimPrefix(p.name+"."+name, "."), maxName)}
	in.excluded = p.excluded || slices.ContainsFunc(tool.Words(name), func(w string) bool { return slices.Contains(excludeWords, w) })
	in.path = max(says(name, pathWords, globWords), p.path.below())
	in.command, in.url = says(name, commandWords, runWords), says(name, urlWords, hostWords)
	if in.command != named {
		in.command = cmp.Or(p.command.belowName(), in.command)
	}
	if in.url != named {
		in.url = cmp.Or(p.url.belowName(), in.url)
	}
	return in
}
