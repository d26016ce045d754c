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

// The tools that a client has itself, and that Remit knows only by their names: the client carries them out.
const (
	// AgentTools begins the IDs of an agent's own tools: agent:AGENT:TOOL.
	AgentTools = "agent:"
	// ProviderSearch is the search of the web that the provider of an agent's model carries out.
	ProviderSearch ID = "provider.search"
)
