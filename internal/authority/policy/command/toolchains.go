package command

import (
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// runCompiler: the linker's options are read as the linker reads them. A word @FILE is a file
// of options.
func runCompiler(d *deriver, r *parsed, args []string) {
	name := base(d.argv[0])
	if !d.certain(name, r) {
		return
	}
	var linked []string
	for _, g := range r.given {
		switch {
		case g.option == "Wl,":
			linked = append(linked, strings.Split(g.text, ",")...)
		case g.option == "Xlinker":
			linked = append(linked, g.text)
		case g.option == "z" && nonLiteral(g.text):
			d.unknownUse(name, "the value of -z is not literal")
			return
		}
	}
	if d.optionFile(name, append(linked, args...)) {
		return
	}
	if len(linked) > 0 {
		d.certain("the linker", programs()["ld"].read(linked))
	}
}

// runRustc: of the options for generating code only some are known to start nothing.
func runRustc(d *deriver, r *parsed, args []string) {
	if !d.certain("rustc", r) {
		return
	}
	for _, g := range r.given {
		key, _, _ := strings.Cut(g.text, "=")
		if (g.option == "C" || g.option == "codegen") && !rustCode()[key] {
			d.unknownUse("rustc", unknownOption("-C "+showWord(g.text)))
			return
		}
	}
	d.optionFile("rustc", args)
}

// optionFile refuses a word @FILE, which is a file of options wherever it stands.
func (d *deriver) optionFile(name string, args []string) bool {
	for _, w := range args {
		if b := begins(w); strings.HasPrefix(b, "@") || b == "" && nonLiteral(w) {
			d.unknownUse(name, "its word "+showWord(w)+" is, or could be, a file of options")
			return true
		}
	}
	return false
}

var rustCode = lazy("opt-level debuginfo debug-assertions overflow-checks lto codegen-units panic target-cpu target-feature strip incremental metadata extra-filename embed-bitcode relocation-model code-model rpath prefer-dynamic split-debuginfo instrument-coverage no-redzone force-frame-pointers")

// runGo: behind the package, go run takes the program's options, and go test also the test's.
func runGo(d *deriver, known *grammar, args []string) {
	r := known.read(args)
	operands := r.operands()
	if len(operands) > 0 && !nonLiteral(operands[0]) {
		g := grammar{known: known.known, single: true}
		switch operands[0] {
		case "run", "tool":
			g.stop = 2
		}
		r = g.read(args)
	}
	if !d.certain("go", r) {
		return
	}
	sub := ""
	if operands = r.operands(); len(operands) > 0 {
		sub = operands[0]
	}
	switch {
	case sub != "" && !goCommands()[sub]:
		d.unknownUse("go", "its subcommand "+showWord(sub)+" is not known")
	case sub == "env" && r.has("w", "u"):
		d.unknownUse("go env", "its option -w changes what later commands of go start")
	case sub == "tool" && len(operands) > 1 && !goTools()[operands[1]]:
		d.unknownUse("go tool", "its tool "+showWord(operands[1])+" is not one that is known to start nothing")
	}
	for _, g := range r.given {
		if g.option == "ldflags" && !linkFlags.MatchString(g.text) || (g.option == "gcflags" || g.option == "asmflags") && !buildFlags.MatchString(g.text) {
			d.unknownUse("go", "the value of its option -"+g.option+" is not one that is known to be harmless")
		}
	}
}

var (
	goCommands = lazy("bug build clean doc env fix fmt generate get help install list mod run telemetry test tool version vet work")
	goTools    = lazy("addr2line asm buildid cover covdata nm objdump test2json trace vet fix dist pack")

	// linkFlags are -s, -w, -X name=value and others that do not name a program.
	linkFlags  = regex.Lazy(`^([^-\s]\S*=)?\s*((-s|-w|-X[ =]\S+|-X[ =]'[^']*'|-X[ =]"[^"]*"|-buildid=\S*|-linkmode[ =](internal|auto)|-compressdwarf=\S*|-checklinkname=0|-race|-v)(\s+|$))*$`)
	buildFlags = regex.Lazy(`^([^-\s]\S*=)?\s*((-m|-m=\d|-N|-l|-S|-B|-e|-trimpath=\S+|-d=\S+|-D \S+|-I \S+)(\s+|$))*$`)
)

// runOpenSSL: engines and providers are libraries that are loaded, and -config names some.
func runOpenSSL(d *deriver, args []string) {
	for i, w := range args {
		if i > 0 {
			switch args[i-1] {
			case "-in", "--in":
				d.argument(reads, w, tool.FileArgument)
			case "-out", "--out", "-keyout", "--keyout":
				d.argument(writes, w, tool.FileArgument)
			}
		}
		switch name := strings.TrimPrefix(begins(w), "-"); {
		case nonLiteral(w) && mayBeOption(w):
			d.unknownUse("openssl", "a word is not literal and could be an option that loads a library")
			return
		case !strings.HasPrefix(w, "-"):
			if m := opensslURI.FindStringSubmatch(begins(w)); m != nil && !opensslSchemes[strings.ToLower(m[1])] {
				d.unknownUse("openssl", "its word "+showWord(w)+" is an address for which it can load a library")
				return
			}
		case !opensslOptions()[strings.TrimPrefix(name, "-")]:
			d.unknownUse("openssl", unknownOption(w))
			return
		}
	}
	if len(args) > 0 && !opensslCommands()[args[0]] {
		d.unknownUse("openssl", "its subcommand "+showWord(args[0])+" is not known")
	}
}

// opensslURI is the address of a key or certificate, which names how it is loaded; HOST:PORT is
// none. opensslSchemes load no library.
var (
	opensslURI     = regex.Lazy(`^([A-Za-z][A-Za-z0-9+.-]*):(?:.*[^0-9].*)?$`)
	opensslSchemes = words("pass env file fd http https ldap ldaps")
)

var (
	opensslCommands = lazy(`asn1parse ca ciphers cms crl crl2pkcs7 dgst dhparam dsa dsaparam ec ecparam enc errstr gendsa genpkey genrsa help list nseq ocsp passwd pkcs12 pkcs7 pkcs8 pkey pkeyparam pkeyutl prime rand req rsa rsautl
		s_client s_time sess_id smime speed spkac srp storeutl ts verify version x509 md5 sha1 sha224 sha256 sha384 sha512 base64 aes-256-cbc aes-128-cbc aes-256-ctr`)
	opensslOptions = lazy(`in out inform outform text noout subj days new newkey nodes noenc keyout key pubin pubout passin passout pass x509 req CA CAkey CAcreateserial CAserial CAfile CApath set_serial sha1 sha256 sha384 sha512 md5 md ext addext
		fingerprint serial issuer subject startdate enddate dates checkend checkhost checkip hash modulus purpose email connect servername showcerts brief quiet starttls tls1 tls1_1 tls1_2 tls1_3 alpn cert cert_chain verify verify_return_error verify_hostname
		host port status prexit ign_eof cipher ciphersuites ciphers crlf a d e A base64 salt nosalt iter pbkdf2 k K iv p P aes128 aes192 aes256 des3 aes-128-cbc aes-192-cbc aes-256-cbc aes-256-ctr name genkey param_enc
		export inkey certfile clcerts cacerts nocerts nokeys topk8 nocrypt v1 v2 hex binary r c sign signature hmac digest pkeyopt algorithm paramfile pubkey nameopt certopt dateopt multi seconds evp elapsed
		list commands digest-algorithms cipher-algorithms v V help 1 5 6 apr1 stdin table encrypt decrypt oaep pkcs utf8 batch msie_hack x509_strict partial_chain trusted untrusted no_check_time crl_check crl_check_all no-CAfile no-CApath
		digest_all sigopt strparse offset length i dump dlimit 2 3 4`)
)
