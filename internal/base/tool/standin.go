package tool

// The tools that stand for the other requests to an MCP server: their IDs are
// mcp:SERVER: and one of these names. Each request is a call of one of them, so that
// it is decided and recorded like any other.
const (
	ReadResource  = "resources.read"
	WatchResource = "resources.subscribe"
	GetPrompt     = "prompts.get"
	Complete      = "completion.complete"
)
