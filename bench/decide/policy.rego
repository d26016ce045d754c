package bench

default allow := false

allow if {
	permitted
	not refused
}

permitted if {
	input.kind == "files.read"
	startswith(input.path, "/w/src/")
}

permitted if {
	input.kind == "files.read"
	startswith(input.path, "/w/docs/")
}

permitted if {
	input.kind == "files.read"
	startswith(input.path, "/w/out/")
}

permitted if {
	input.kind == "files.read"
	startswith(input.path, "/w/testdata/")
}

permitted if {
	input.kind == "files.read"
	input.path == "/w/README.md"
}

refused if {
	input.kind == "files.read"
	startswith(input.path, "/w/private/")
}

refused if {
	input.kind == "files.read"
	endswith(input.path, ".bak")
}

refused if {
	input.kind == "files.read"
	contains(input.path, "/secrets/")
}

permitted if {
	input.kind == "files.write"
	startswith(input.path, "/w/out/")
}

permitted if {
	input.kind == "files.write"
	startswith(input.path, "/w/docs/generated/")
}

refused if {
	input.kind == "files.write"
	startswith(input.path, "/w/out/locked/")
}

permitted if {
	input.kind == "network"
	input.scheme == "https"
	input.port == 443
	input.host == "api.github.com"
}

permitted if {
	input.kind == "network"
	input.scheme == "https"
	input.port == 443
	input.host == "packages.example.org"
}

permitted if {
	input.kind == "network"
	input.method == "GET"
	input.scheme == "https"
	input.port == 443
	endswith(input.host, ".example.com")
	startswith(input.path, "/v1/")
}

permitted if {
	input.kind == "network"
	input.method == "POST"
	input.scheme == "https"
	input.port == 443
	input.host == "hooks.example.org"
	startswith(input.path, "/build/")
}

refused if {
	input.kind == "network"
	endswith(input.host, ".internal.example.com")
}

permitted if input.tool == "time.now"

permitted if startswith(input.tool, "mcp:github:get_")

permitted if startswith(input.tool, "mcp:github:list_")

permitted if {
	input.tool == "mcp:github:create_issue"
	startswith(input.args.repo, "remit-")
}

permitted if {
	input.tool == "mcp:mail:send_email"
	every r in input.args.recipients {
		r in {"ann@example.com", "bob@example.com", "carol@example.com"}
	}
}

permitted if {
	input.tool == "mcp:calendar:create_event"
	input.args.calendar == "work"
	input.args.minutes >= 5
	input.args.minutes <= 240
}

permitted if {
	input.tool == "mcp:bank:transfer"
	input.args.to in {"rent", "power", "water"}
	input.args.amount >= 1
	input.args.amount <= 1000
	input.args.currency == "EUR"
}

permitted if {
	input.tool == "mcp:db:query"
	input.args.table in {"orders", "items", "users"}
	input.args.limit <= 500
}

permitted if startswith(input.tool, "mcp:search:")

refused if startswith(input.tool, "mcp:github:delete_")

refused if {
	input.tool == "mcp:mail:send_email"
	contains(input.args.subject, "password")
}

refused if {
	input.tool == "mcp:bank:transfer"
	input.args.to == "cash"
}
