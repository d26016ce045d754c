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
	// AgentRead reads, and AgentWrite writes, a file of the agent's session outside of the project, as its scratch files
	// and the output of its tools. AgentWrite is also for plans.
	AgentRead  ID = "agent.read"
	AgentWrite ID = "agent.write"
	// AgentRecall reads an agent's own file that may be of an earlier session: a plan or a note.
	AgentRecall ID = "agent.recall"
)
