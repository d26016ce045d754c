package command

import (
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/tool"
)

// fetching are the commands of package managers that read from registries. Others ask when they connect.
const fetching = `npm install **|npm ci **|npm update **|npm exec **|npm init **|npm outdated **|npm audit **|npm view **|npm search **
npm install-ci-test **|npm install-test **|npm pack **|npx **|pnpm install **|pnpm add **|pnpm update **|pnpm dlx **|pnpm fetch **
pnpm outdated **|pnpx **|yarn|yarn install **|yarn add **|yarn up **|yarn upgrade **|yarn dlx **|yarn create **|bun install **|bun add **
bun update **|bun create **|bun x **|bunx **|corepack **|pip install **|pip download **|pip wheel **|pip index **|python -m pip install **
python3 -m pip install **|python3 -m pip download **|pip3 install **
pip3 download **|pip3 wheel **|pipx install **|pipx run **|pipx upgrade **|uv sync **|uv add **|uv lock **|uv pip install **
uv pip sync **|uv tool install **|uv tool run **|uvx **|poetry install **|poetry add **|poetry update **|poetry lock **
pdm install **|pdm add **|pdm update **|pdm lock **|cargo fetch **|cargo add **|cargo install **|cargo update **|cargo search **
go get **|go install **|go mod download **|go mod tidy **|go mod vendor **|gem install **|gem update **|bundle install **
bundle update **|bundle add **|composer install **|composer update **|composer require **`

var fetches = sync.OnceValue(func() (list []*Pattern) {
	for text := range strings.FieldsFuncSeq(fetching, func(r rune) bool { return r == '|' || r == '\n' }) {
		if p, err := ParsePattern(text); err == nil { // a test parses all
			list = append(list, p)
		}
	}
	return list
})

// Fetches reports whether a command is known to read from a package registry.
func Fetches(a *tool.Action) bool {
	return a.Kind == tool.Command && slices.ContainsFunc(fetches(), func(p *Pattern) bool { return p.MatchDeny(a, nil) })
}
