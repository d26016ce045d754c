package egress

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/remitrun/remit/internal/confine/network"
)

// Bounds of a request's head.
const (
	maxHead   = 64 << 10
	maxFields = 200
)

// field is one header field as it was sent.
type field struct{ name, value string }

// head is a request's head, read by RFC 9112 without any of its leniency: what
// two readers could take for different messages is refused.
type head struct {
	method, uri string
	minor       byte // of HTTP/1.x: 0 or 1
	fields      []field

	host    string // of the Host field
	hosts   int    // how many there were
	length  int64  // of the body; -1: not said
	chunked bool
	expects bool // Expect: 100-continue
	ends    bool // the connection is not kept

	socketKey string // the host is asked for a WebSocket with this key; "": it is not
	auth      string
}

// hopByHop are the fields of the connection, which are never forwarded.
// Content-Length and Host are written anew.
var hopByHop = []string{"connection", "content-length", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
	"transfer-encoding", "upgrade"}

// readHead reads one request's head and nothing of what follows. io.EOF means
// that none came. Other errors are refusals or of the connection.
func readHead(br *bufio.Reader) (*head, error) {
	left := maxHead
	line, err := readLine(br, &left)
	if err != nil {
		return nil, err
	}
	h := &head{length: -1}
	if err := h.requestLine(line); err != nil {
		return nil, err
	}
	for {
		line, err := readLine(br, &left)
		if err != nil {
			return nil, noEOF(err)
		}
		if line == "" {
			return h, h.check()
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		if len(h.fields) >= maxFields {
			return nil, malformed("the request has too many header fields")
		}
		h.fields = append(h.fields, f)
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readLine reads a line that ends in CR LF, takes its bytes off left, and gives
// it without its end. Other control characters but tabs are refused.
func readLine(br *bufio.Reader, left *int) (string, error) {
	var long []byte
	for {
		part, err := br.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return "", malformed("the request's head is too large")
		}
		if err == nil && long == nil {
			return checkLine(part)
		}
		long = append(long, part...)
		switch {
		case err == nil:
			return checkLine(long)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(long) > 0:
			return "", io.ErrUnexpectedEOF
		default:
			return "", err
		}
	}
}

func checkLine(b []byte) (string, error) {
	n := len(b) - 2
	if n < 0 || b[n] != '\r' {
		return "", malformed("a line of the request does not end in CR LF")
	}
	for _, c := range b[:n] {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", malformed("the request's head has a control character")
		}
	}
	return string(b[:n]), nil
}

func (h *head) requestLine(line string) error {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !httpguts.ValidHeaderFieldName(parts[0]) || parts[1] == "" || strings.Contains(line, "\t") {
		return malformed("the request line is not METHOD target HTTP/1.1")
	}
	switch parts[2] {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return malformed("only HTTP/1.0 and HTTP/1.1 are spoken here")
	}
	h.method, h.uri = parts[0], parts[1]
	return nil
}

func parseField(line string) (field, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return field{}, malformed("a header field goes on in a second line")
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		return field{}, malformed("a header field is not name: value")
	}
	return field{name, strings.Trim(value, " \t")}, nil
}

// check reads the fields that say where the message ends and where it goes.
func (h *head) check() error {
	seen := map[string]int{}
	for _, f := range h.fields {
		low := strings.ToLower(f.name)
		seen[low]++
		switch low {
		case "host":
			h.host = f.value
		case "content-length":
			n, err := strconv.ParseInt(f.value, 10, 63)
			if err != nil || n < 0 || strconv.FormatInt(n, 10) != f.value {
				return malformed("the Content-Length is not a plain number")
			}
			h.length = n
		case "transfer-encoding":
			if !strings.EqualFold(f.value, "chunked") || h.minor == 0 {
				return malformed("the only Transfer-Encoding is chunked, in HTTP/1.1")
			}
			h.chunked = true
		case "expect":
			if !strings.EqualFold(f.value, "100-continue") {
				return malformed("the only expectation is 100-continue")
			}
			h.expects = h.minor == 1
		case "proxy-authorization":
			h.auth = f.value
		}
	}
	h.hosts = seen["host"]
	switch {
	case seen["content-length"] > 1 || seen["transfer-encoding"] > 1 || seen["host"] > 1 || seen["proxy-authorization"] > 1:
		return malformed("a header field that may come once came twice")
	case h.chunked && h.length >= 0:
		return malformed("the request has both a Content-Length and a Transfer-Encoding")
	case h.hosts == 0 && h.minor == 1:
		return malformed("the request has no Host")
	}
	h.ends = h.minor == 0 || slices.Contains(h.listed(), "close")
	return nil
}

// hasBody reports whether bytes follow the head.
func (h *head) hasBody() bool { return h.chunked || h.length > 0 }

// listed are the names in Connection fields, in lower case.
func (h *head) listed() []string {
	var out []string
	for _, f := range h.fields {
		if strings.EqualFold(f.name, "Connection") || strings.EqualFold(f.name, "Proxy-Connection") {
			for name := range strings.SplitSeq(strings.ToLower(f.value), ",") {
				out = append(out, strings.Trim(name, " \t"))
			}
		}
	}
	return out
}

// forwarded gives the fields that go on to the host. Those that would make the
// host see another request than the one decided are refused, as they are for
// Remit's own requests.
func (h *head) forwarded() ([]field, error) {
	listed := h.listed()
	out := make([]field, 0, len(h.fields))
	for _, f := range h.fields {
		low := strings.ToLower(f.name)
		if strings.HasPrefix(low, "proxy-") || slices.Contains(hopByHop, low) {
			continue
		}
		if reason := network.RefusedHeader(low); reason != "" {
			return nil, deny(ruleProtocol, "the header "+strconv.Quote(f.name)+" is refused: "+reason)
		}
		if slices.Contains(listed, low) {
			continue
		}
		out = append(out, f)
	}
	return out, nil
}
