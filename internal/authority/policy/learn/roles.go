package learn

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// traits are the likely effects of a tool, by its side effects and the words of its name.
type traits struct {
	reads    bool // it only reads: no word and no side effect says that it changes something
	sends    bool // text that it is given leaves the machine: it changes something, or reaches the web
	destroys bool // it deletes or cancels
	pays     bool
}

var (
	readingVerbs = strings.Fields("get read list search find view show describe query retrieve lookup count check verify validate calculate estimate " +
		"preview analyze summarize compare stat tree head tail grep cat select fetch load browse")
	changingVerbs = strings.Fields("create make add set update edit modify delete void cancel place submit execute initiate schedule approve capture " +
		"send accept issue remove drop destroy erase purge wipe truncate terminate reset insert upsert write save store upload publish run exec apply")
	destroyingVerbs = strings.Fields("delete remove rm unlink drop destroy erase purge wipe truncate terminate reset cancel revoke kick ban close")
	webWords        = strings.Fields("web webpage webpages website page pages site internet url urls http https download crawl scrape browse browser navigate curl fetch")
)

// changing are side effects that a tool which only reads does not have. Effects that
// every tool of a server may have (network.http, fs.write) are not among them.
var changing = tool.EffectSet(tool.FSDelete, tool.FSChmod, tool.CloudKeyRead, tool.CloudKeyWrite, tool.CloudResourceCreate, tool.CloudResourceDelete,
	tool.Payments, tool.SystemExec, tool.DatabaseWrite, tool.DatabaseDelete)

func traitsOf(spec *tool.Spec) traits {
	name := string(spec.ID)
	words := tool.Words(name[strings.LastIndexByte(name, ':')+1:])
	t := traits{
		reads: len(words) > 0 && slices.Contains(readingVerbs, words[0]) && !anyWord(words, changingVerbs) && spec.Effects&changing == 0,
		destroys: anyWord(words, destroyingVerbs) || spec.Effects.Has(tool.FSDelete) || spec.Effects.Has(tool.DatabaseDelete) ||
			spec.Effects.Has(tool.CloudResourceDelete),
		pays: spec.Effects.Has(tool.Payments),
	}
	t.sends = !t.reads || anyWord(words, webWords)
	return t
}

func anyWord(words, list []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
}

// A role is what an argument decides in a call. The zero role is never widened.
type role uint8

const (
	subject    role = iota // on which thing the call acts
	party                  // who gets or pays something: a person, an account, an address
	place                  // where data comes from or goes: a URL, a host, a file
	program                // code and commands
	identifier             // one of many things of a kind, by its number
	words                  // text for people
)

var (
	placeWords = strings.Fields("url urls uri link links href host hostname domain endpoint server webhook callback origin path paths file files dir " +
		"directory folder root destination target source port proxy registry bucket")
	partyWords = strings.Fields("to cc bcc recipient recipients receiver payee beneficiary creditor address addresses email emails mail phone iban account " +
		"bic swift wallet channel room user username member members participant participants attendee attendees invitee guest group team owner assignee " +
		"password secret token role permission permissions")
	programWords = strings.Fields("command commands cmd script sql argv args program code eval expression shell")
	idWords      = strings.Fields("id ids uuid guid number numbers no nr ref reference index sku slug")
	textWords    = strings.Fields("body content contents text message title subject description summary note notes comment comments reason caption label " +
		"headline details remark remarks memo question answer feedback instructions")
)

// roleOf reads the role of an argument from its name, as a policy writes it.
func roleOf(name string) role {
	all := tool.Words(name[strings.LastIndexByte(name, '.')+1:])
	if len(all) == 0 {
		return subject
	}
	switch last := all[len(all)-1]; {
	case anyWord(all, programWords) && !slices.Contains(idWords, last):
		return program
	case anyWord(all, partyWords):
		return party
	case slices.Contains(idWords, last):
		return identifier
	case anyWord(all, placeWords):
		return place
	case slices.Contains(textWords, last):
		return words
	}
	return subject
}

// located finds texts that name a place: URLs, host names with www or a path, and paths.
var located = regex.Lazy(`^(?:[A-Za-z][A-Za-z0-9+.-]*:/|//|www\.|~|\.{0,2}/|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?:[:/?#]|$)|\S+/\S*\.\S+$|\S*\\)`)

// moment finds dates and times.
var moment = regex.Lazy(`^(?:\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})?)?|\d{2}:\d{2}(?::\d{2})?)$`)
