package command

// networkList are the programs that reach other hosts.
var networkList = []program{
	{names: "curl", grammar: grammar{known: curlKnown, negate: true},
		files: fileWords{read: "T E upload-file cert key netrc-file cacert proxy-cert proxy-key pubkey etag-compare crlfile proxy-crlfile", sent: "d data data-binary data-ascii data-urlencode json F form H header proxy-header b cookie url-query variable w write-out url",
			write: "o c D output cookie-jar dump-header trace trace-ascii stderr libcurl alt-svc hsts etag-save output-dir", rest: ignored}},
	{names: "wget", grammar: grammar{known: wgetKnown},
		files: fileWords{read: "i input-file post-file body-file load-cookies private-key certificate ca-certificate crl-file", write: "O o a P directory-prefix hsts-file warc-tempdir output-document output-file append-output save-cookies rejected-log warc-file", rest: ignored}},
	{names: "ssh slogin", grammar: grammar{stop: 2, known: "-46AaCfGgKkMNnqsTtVvXxYy -BbcDEeiJLlmOpQRSWw="}, files: fileWords{read: "F", write: "E", rest: ignored}},
	{names: "scp", grammar: grammar{known: "-346ABCOpqRrsTv -cilPJX="}, files: fileWords{rest: reads, last: writes, tree: "*"}},
	{names: "sshfs", grammar: grammar{known: "-dfsCh1 -p="}},
	{names: "ssh-keygen", grammar: grammar{known: "-ABcegHhiKLlpqQRruUvXy -CEFfGIJjMmNnOPrSsTtVWYZabz= -b="}},
	{names: "ssh-add", grammar: grammar{known: "-cDdKkLlqvXx -EHhTt="}},
	{names: "ssh-copy-id", grammar: grammar{known: "-fnh -ip="}},
	{names: "mosh", grammar: grammar{stop: 2, known: "-46an -p= --predict= --port= --no-ssh-pty --no-init --local --family= --bind-server= --help --version"}},
	{names: "nc ncat netcat", grammar: grammar{known: "-46bCDdFhklNnrStUuvZz -iIMmOPpqsTVWwXx= --ssl --ssl-verify --listen --udp --wait= --idle-timeout= --source-port= --keep-open --recv-only --send-only --verbose --version --help"}},
	{names: "nmap", grammar: grammar{single: true, known: `-sS -sT -sn -sP -sU -sV -sL -sO -Pn -PE -PS* -PA* -PU* -n -R -F -r -v -vv -d -O -6 -p= -p* -T0 -T1 -T2 -T3 -T4 -T5 --open --top-ports= --reason -oN= -oX= -oG= -oA= -iL= --exclude= --host-timeout=
		--max-retries= --min-rate= --max-rate= --version-light --traceroute --system-dns --version --help -h -V`}, files: fileWords{read: "iL", write: "oN oX oG oA", rest: ignored}},
	{names: "tcpdump", grammar: grammar{known: "-AbdDefhHIJKlLnNOpqStuUvxX# -BcCFGijmMQrsTVwWyZE= --count --list-interfaces --interface= --snapshot-length= --number --print --version --help"}, files: fileWords{read: "r F V", write: "w", rest: ignored}},
	{names: "tshark dumpcap wireshark", grammar: grammar{known: "-DGhlLnpPqQSvVxg -abcdeEfFHijJKmMNOrRstTuUwWyYz= --version --help"}, files: fileWords{read: "r", write: "w", rest: ignored}},
	{names: "ip", grammar: grammar{lead: true, single: true, known: "-4 -6 -0 -B -M -s -stats -statistics -d -details -r -resolve -o -oneline -br -brief -j -json -p -pretty -c -color -color=always -color=auto -color=never -h -human -human-readable -iec -t -timestamp -ts -tshort -f= -family= -l= -loops= -V -Version -N -Numeric -a -all"},
		run: byIP},
	{names: "busctl", grammar: grammar{known: "-lqjM= --no-pager --no-legend --system --user --unique --acquired --activatable --list --json= --full --help --version"}},
	{names: "aria2c", grammar: grammar{known: `-cqVZ -dioxskjl= --dir= --out= --input-file= --continue=? --max-connection-per-server= --split= --max-concurrent-downloads= --max-tries= --timeout= --quiet=? --header= --user-agent= --referer= --check-certificate= --checksum= --allow-overwrite= --auto-file-renaming= --no-conf --version --help`}, files: fileWords{read: "i input-file", write: "d dir o out", rest: ignored}},
	{names: "svn", grammar: grammar{known: `-qvNRugxF -rmclF= --quiet --verbose --revision= --message= --file= --username= --no-auth-cache --non-interactive --trust-server-cert --depth= --set-depth= --force --recursive --non-recursive --show-updates --change=
		--limit= --xml --incremental --stop-on-copy --ignore-externals --parents --accept= --git --summarize --no-ignore --changelist= --internal-diff --keep-local --strict --targets= --extensions= --no-diff-deleted --version --help`}, files: fileWords{read: "F file targets", rest: ignored}},
	{names: "openssl", grammar: grammar{lead: true}, run: byOpenSSL},
	{names: "gpg gpg2", grammar: grammar{known: gpgKnown}, files: fileWords{write: "o output", rest: ignored}},
	{names: "borg", grammar: grammar{known: "-vhpn -eC= --verbose --info --debug --progress --stats --list --dry-run --compression= --exclude= --exclude-from= --exclude-caches --json --prefix= --glob-archives= --keep-daily= --keep-weekly= --keep-monthly= --keep-within= --lock-wait= --show-rc --encryption= --help --version"}},
	{names: "restic", grammar: grammar{known: "-vqrpnh --verbose=? --quiet --repo= --repository-file= --password-file= --tag= --host= --exclude= --exclude-file= --exclude-caches --files-from= --json --dry-run --no-lock --one-file-system --target= --include= --keep-daily= --keep-weekly= --keep-monthly= --keep-yearly= --keep-last= --keep-within= --prune --path= --limit-upload= --limit-download= --cacert= --no-cache --cleanup-cache --help --version"}, files: fileWords{read: "repository-file password-file exclude-file files-from cacert", rest: ignored}},
	{names: "rclone", grammar: grammar{known: "-PvqnxiLlh --progress --verbose --quiet --dry-run --transfers= --checkers= --exclude= --include= --filter= --files-from= --max-depth= --size-only --checksum --update --bwlimit= --stats= --log-file= --log-level= --fast-list --create-empty-src-dirs --ignore-existing --human-readable --recursive --json --help --version"}, files: fileWords{read: "files-from", write: "log-file", rest: ignored}},
	{names: "yt-dlp youtube-dl", grammar: grammar{known: "-xFqsvcwikSnjJ -foParpu= -S= --format= --output= --extract-audio --audio-format= --audio-quality= --list-formats --quiet --simulate --skip-download --get-url --get-title --dump-json --write-subs --write-auto-subs --sub-langs= --sub-format= --write-thumbnail --write-info-json --no-playlist --yes-playlist --playlist-items= --paths= --limit-rate= --retries= --cookies= --user-agent= --referer= --no-exec --ignore-config --no-warnings --print= --merge-output-format= --restrict-filenames --download-archive= --continue --no-overwrites --verbose --help --version"}, files: fileWords{read: "cookies", write: "download-archive", rest: ignored}},
	{names: "certbot", grammar: grammar{known: "-ndvqh --domain= --domains= --non-interactive --agree-tos --dry-run --standalone --webroot --webroot-path= --nginx --apache --email= --staging --test-cert --cert-name= --quiet --version --help"}},
}

const (
	curlKnown = `-#012346BGILMNORSVZafgiklnpqsvJj:h -ACDEFHPQTUXYbcdemortuwyz= -x= --abstract-unix-socket= --alt-svc= --anyauth --append --aws-sigv4= --basic --cacert= --capath= --cert= --cert-status --cert-type= --ciphers= --compressed
		--compressed-ssh --connect-timeout= --connect-to= --continue-at= --cookie= --cookie-jar= --create-dirs --create-file-mode= --crlf --crlfile= --curves= --data= --data-ascii= --data-binary= --data-raw= --data-urlencode= --delegation=
		--digest --disable --disable-eprt --disable-epsv --disallow-username-in-url --dns-interface= --dns-ipv4-addr= --dns-ipv6-addr= --dns-servers= --doh-cert-status --doh-insecure --doh-url= --dump-header= --etag-compare= --etag-save=
		--expect100-timeout= --fail --fail-early --fail-with-body --false-start --form= --form-escape --form-string= --ftp-account= --ftp-alternative-to-user= --ftp-create-dirs --ftp-method= --ftp-pasv --ftp-port= --ftp-pret
		--ftp-skip-pasv-ip --ftp-ssl-ccc --ftp-ssl-ccc-mode= --ftp-ssl-control --get --globoff --happy-eyeballs-timeout-ms= --haproxy-protocol --head --header= --help --hostpubmd5= --hostpubsha256= --hsts= --http0.9 --http1.0 --http1.1 --http2
		--http2-prior-knowledge --http3 --http3-only --ignore-content-length --include --insecure --interface= --ipv4 --ipv6 --json= --junk-session-cookies --keepalive-time= --keepalive --key= --key-type= --krb= --libcurl= --limit-rate= --list-only
		--local-port= --location --location-trusted --login-options= --mail-auth= --mail-from= --mail-rcpt= --mail-rcpt-allowfails --manual --max-filesize= --max-redirs= --max-time= --negotiate --netrc --netrc-file=
		--netrc-optional --next --alpn --buffer --clobber --npn --progress-meter --sessionid --noproxy= --ntlm --oauth2-bearer= --output= --output-dir= --parallel --parallel-immediate --parallel-max= --pass= --path-as-is
		--pinnedpubkey= --post301 --post302 --post303 --preproxy= --progress-bar --proto= --proto-default= --proto-redir= --proxy= --proxy-anyauth --proxy-basic --proxy-cacert= --proxy-capath= --proxy-cert= --proxy-cert-type=
		--proxy-ciphers= --proxy-crlfile= --proxy-digest --proxy-header= --proxy-insecure --proxy-key= --proxy-key-type= --proxy-negotiate --proxy-ntlm --proxy-pass= --proxy-pinnedpubkey= --proxy-service-name= --proxy-user= --proxytunnel --proxy1.0=
		--pubkey= --quote= --range= --rate= --raw --referer= --remote-header-name --remote-name --remote-name-all --remote-time --remove-on-error --request= --request-target= --resolve= --retry= --retry-all-errors --retry-connrefused
		--retry-delay= --retry-max-time= --sasl-authzid= --sasl-ir --service-name= --show-error --silent --socks4= --socks4a= --socks5= --socks5-basic --socks5-gssapi --socks5-hostname= --speed-limit= --speed-time= --ssl --ssl-allow-beast
		--ssl-no-revoke --ssl-reqd --ssl-revoke-best-effort --stderr= --styled-output --suppress-connect-headers --tcp-fastopen --tcp-nodelay --telnet-option= --tftp-blksize= --tftp-no-options --time-cond= --tls-max= --tls13-ciphers=
		--tlsauthtype= --tlspassword= --tlsuser= --tlsv1 --tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3 --tr-encoding --trace= --trace-ascii= --trace-time --trace-ids --trace-config= --unix-socket= --upload-file= --url= --url-query= --use-ascii
		--user= --user-agent= --variable= --verbose --version --write-out= --xattr`

	wgetKnown = `-46bcdEFhHkKLmnNpqrSvVx -aABDiIloOPQRtTUwX= --accept= --reject= --accept-regex= --reject-regex= --ask-password --auth-no-challenge --background --backups=? --backup-converted --adjust-extension --bind-address= --body-data= --body-file= --ca-certificate=
		--ca-directory= --certificate= --certificate-type= --ciphers= --compression= --connect-timeout= --content-disposition --content-on-error --continue --convert-links --convert-file-only --crl-file= --cut-dirs= --debug --default-page= --delete-after
		--directory-prefix= --dns-timeout= --domains= --exclude-domains= --exclude-directories= --include-directories= --follow-ftp --follow-tags= --force-directories --force-html --ftp-password= --ftp-user= --header= --hsts-file= --html-extension
		--http-password= --http-user= --https-only --ignore-case --ignore-length --ignore-tags= --inet4-only --inet6-only --input-file= --base= --keep-session-cookies --level= --limit-rate= --load-cookies= --local-encoding= --max-redirect= --method= --mirror
		--no-cache --no-check-certificate --no-clobber --no-config --no-cookies --no-directories --no-dns-cache --no-glob --no-host-directories --no-hsts --no-http-keep-alive --no-if-modified-since --no-iri --no-netrc --no-parent
		--no-passive-ftp --no-proxy --no-remove-listing --no-use-server-timestamps --no-verbose --no-warc-compression --no-warc-digests --no-warc-keep-log --output-document= --output-file= --append-output= --page-requisites --password=
		--pinnedpubkey= --post-data= --post-file= --prefer-family= --preserve-permissions --private-key= --private-key-type= --progress= --protocol-directories --proxy-password= --proxy-user= --quiet --quota= --random-wait --read-timeout=
		--recursive --referer= --regex-type= --rejected-log= --relative --remote-encoding= --report-speed= --restrict-file-names= --retr-symlinks --retry-connrefused --retry-on-http-error= --save-cookies= --save-headers --secure-protocol=
		--server-response --show-progress --span-hosts --spider --start-pos= --strict-comments --timeout= --timestamping --tries= --trust-server-names --unlink --user= --user-agent= --verbose --wait= --waitretry= --warc-cdx --warc-file= --warc-header=
		--warc-max-size= --warc-tempdir= --xattr --help --version`

	gpgKnown = `-Kabcdekqnstv -oruz= --armor --auto-key-retrieve --batch --card-status --check-signatures --clear-sign --clearsign --dearmor --decrypt --default-key= --detach-sign --dry-run --encrypt --encrypt-to= --enarmor --export --export-secret-keys
		--fingerprint --fixed-list-mode --full-generate-key --generate-key --gen-key --hidden-recipient= --import --import-ownertrust --keyid-format= --keyring= --list-config --list-keys --list-key --list-options= --list-packets --list-secret-keys
		--list-sigs --list-signatures --local-user= --no --no-default-keyring --no-greeting --no-options --no-tty --output= --passphrase-fd= --pinentry-mode= --print-md --quick-add-key --quick-generate-key --quick-gen-key --quiet --recipient= --recv-keys
		--receive-keys --keyserver= --refresh-keys --search-keys --send-keys --show-keys --sign --status-fd= --symmetric --trust-model= --trusted-key= --use-agent --verbose --verify --with-colons --with-fingerprint --with-keygrip --yes
		--delete-keys --delete-secret-keys --edit-key --cipher-algo= --digest-algo= --compress-algo= --s2k-count= --help --version`
)
