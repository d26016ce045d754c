package catalog

import (
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// printer words schema errors in English, whatever the machine's locale.
var printer = message.NewPrinter(language.English)
