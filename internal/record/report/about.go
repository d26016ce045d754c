package report

import (
	"encoding/json"
	"strings"
)

// Telling are the names of the arguments that say most about a call, the best first.
var Telling = []string{"path", "url", "command", "script", "query", "to", "from", "name", "model"}

// About returns the most telling one of a call's arguments, which are a JSON object. The words of a command are joined. "":
// none is a text.
func About(args json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return ""
	}
	for _, name := range Telling {
		var text string
		var words []string
		raw, ok := object[name]
		if ok && json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &words) == nil {
			text = strings.Join(words, " ")
		}
		if text != "" {
			return text
		}
	}
	return ""
}
