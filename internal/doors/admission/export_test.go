package admission

// ReadProxyHeader is readProxyHeader.
var ReadProxyHeader = readProxyHeader
