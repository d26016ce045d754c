package infer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// payment says which words of a name mean that a call moves money or value,
// commits somebody to paying, asks for a payment, or changes such a commitment.
type payment struct {
	words  []string
	with   []string // one of these must be there too; nil: no
	unless []string // with one of these the words mean something else
	alone  bool     // the name has no other word
	noun   bool     // a name that only reads ("list_invoices") does not count
}

// payments are compared with words in the singular.
var payments = []payment{
	{words: strings.Fields("pay repay prepay buy sell donate withdraw")},
	{words: strings.Fields("payment payout payin onramp offramp refund invoice purchase withdrawal donation chargeback remittance escrow topup giftcard beneficiary payee mandate iban sepa ach settlement dispute trade swap stake unstake spend money"), noun: true},
	{words: strings.Fields("transfer deposit mint redeem supply borrow lend bridge"), alone: true},
	{words: []string{"checkout"}, unless: strings.Fields("git branch repo repository commit ref book file"), noun: true},
	{words: []string{"transaction"}, unless: append(strings.Fields("begin commit rollback apm trace span sentry"), databaseWords...), noun: true},
	{words: []string{"subscription"}, unless: strings.Fields("webhook event topic pubsub resource alert azure notification feed queue channel calendar"), noun: true},
	{words: []string{"transfer"}, with: slices.Concat(valueWords, strings.Fields("create make new add update edit modify delete cancel approve initiate schedule submit execute send bank account intl internal")),
		unless: strings.Fields("file data human agent issue ownership repo repository call ticket project chat"), noun: true},
	{words: []string{"order"}, with: strings.Fields("create place submit complete confirm replace modify exchange return cancel reorder repeat buy pay"), unless: strings.Fields("sort tab column list"), noun: true},
	{words: strings.Fields("bill deposit fund cash tip bid credit expense debt"), with: strings.Fields("create make new add update edit delete void pay send place submit record issue apply wallet transfer note memo vendor"), unless: strings.Fields("law congress"), noun: true},
	{words: []string{"charge"}, with: strings.Fields("create card customer account capture make new amount payment"), noun: true},
	{words: strings.Fields("wire send deploy call invoke approve sign broadcast"), with: chainWords, noun: true},
	{words: strings.Fields("mint burn bridge wrap unwrap redeem"), with: append([]string{"token"}, chainWords...), noun: true},
	{words: strings.Fields("close liquidate exercise open"), with: []string{"position"}, unless: []string{"cursor", "not"}, noun: true},
	{words: strings.Fields("approve run process submit"), with: []string{"payroll"}},
	{words: strings.Fields("receipt"), with: []string{"sale"}, noun: true},
	{words: strings.Fields("book reserve"), with: strings.Fields("flight hotel ticket reservation booking rental room trip train car")},
	{words: strings.Fields("create make confirm cancel update change modify exchange rebook"), with: strings.Fields("reservation booking flight")},
	{words: strings.Fields("register renew"), with: []string{"domain"}},
}

var (
	chainWords = strings.Fields("erc20 erc721 erc1155 spl sol solana eth ether ethereum bitcoin btc usdc usdt coin crypto nft lamport wei contract onchain money fund")
	valueWords = append(strings.Fields("token payment balance card amount invoice cash asset stock share"), chainWords...)
	// readVerbs, and nouns at a name's end, belong to names that only read, where
	// no actVerbs stand beside them.
	readVerbs = strings.Fields("get read list search find view show fetch describe query retrieve lookup count check verify validate calculate estimate preview analyze summarize")
	readNouns = strings.Fields("status history report summary quote details stats")
	actVerbs  = strings.Fields("create make add set update edit modify delete void cancel place submit execute initiate schedule approve capture send accept issue load")
)

// moneyOf is the evidence of the words of a name or title that a tool moves money.
func moneyOf(words []string) (Reason, bool) {
	has, reads := singular(set(words)), onlyReads(words)
	for _, p := range payments {
		if p.noun && reads || p.alone && len(words) > 1 || p.with != nil && !anyOf(has, p.with) || anyOf(has, p.unless) {
			continue
		}
		if i := slices.IndexFunc(p.words, func(w string) bool { return has[w] }); i >= 0 {
			return Reason{tool.Critical, tool.EffectSet(tool.Payments), fmt.Sprintf("its name says %q, which can move money", p.words[i])}, true
		}
	}
	return Reason{}, false
}

// onlyReads reports whether the words of a name say that it reads, and not also
// that it changes something, as "get_or_create_invoice" does.
func onlyReads(words []string) bool {
	has := set(words)
	return !anyOf(has, actVerbs) && (anyOf(has, readVerbs) || len(words) > 0 && slices.Contains(readNouns, words[len(words)-1]))
}

// readsMoney reports whether a name only reads of money, so that its description
// may speak of it.
func readsMoney(name []string) bool {
	has := singular(set(name))
	return onlyReads(name) && slices.ContainsFunc(payments, func(p payment) bool { return p.noun && anyOf(has, p.words) })
}

// singular returns words without the s of a plural, and the nouns of payments that
// are part of a longer word ("prepayments").
func singular(has map[string]bool) map[string]bool {
	out := maps.Clone(has)
	for w := range has {
		if s, ok := strings.CutSuffix(w, "ies"); ok && len(s) > 2 {
			out[s+"y"] = true
		} else if s, ok := strings.CutSuffix(w, "s"); ok && len(s) > 2 {
			out[s] = true
		}
		for _, part := range []string{"payment", "payout", "refund", "invoice", "iban"} {
			if strings.Contains(w, part) {
				out[part] = true
			}
		}
	}
	return out
}

// maxNesting bounds how deep a schema is searched for names of arguments.
const maxNesting = 8

// amountArgs and payeeArgs are words in names of arguments: an amount that goes to somebody, or the
// number of a card, is a payment, under any name of the tool.
var (
	amountArgs = strings.Fields("amount lamport wei satoshi sat cent")
	payeeArgs  = strings.Fields("recipient payee beneficiary iban creditor destination receiver toaddress")
	cardArgs   = strings.Fields("cvc cvv cardnumber")
)

// argumentsOf is the evidence of the names of a tool's arguments.
func argumentsOf(input json.RawMessage) (Reason, bool) {
	var schema any
	if len(input) == 0 || json.Unmarshal(input, &schema) != nil {
		return Reason{}, false
	}
	has := map[string]bool{}
	properties(schema, has, maxNesting)
	has = singular(has)
	payee := anyOf(has, payeeArgs)
	if !anyOf(has, cardArgs) && !(payee && anyOf(has, amountArgs)) {
		return Reason{}, false
	}
	return Reason{tool.Critical, tool.EffectSet(tool.Payments), "its arguments name an amount and a payee, or a card"}, true
}

// properties adds the words of the names of all arguments, and names of two words
// that belong together.
func properties(schema any, has map[string]bool, depth int) {
	if depth == 0 {
		return
	}
	switch s := schema.(type) {
	case []any:
		for _, v := range s {
			properties(v, has, depth-1)
		}
	case map[string]any:
		for key, v := range s {
			names, ok := v.(map[string]any)
			if key == "properties" && ok {
				for name := range names {
					words := tool.Words(name)
					for i, w := range words {
						has[w] = true
						if i > 0 {
							has[words[i-1]+w] = true
						}
					}
				}
			}
			properties(v, has, depth-1)
		}
	}
}
