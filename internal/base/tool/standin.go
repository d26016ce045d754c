package tool

// The tools of an MCP server that stand for what else it can be asked: their IDs
// are mcp:SERVER: and one of these names. Each use is a call of one of them, so
// that it is decided and recorded like any other.
const (
	ReadResource  = "resources.read"
	WatchResource = "resources.subscribe"
	GetPrompt     = "prompts.get"
	Complete      = "completion.complete"
)
