package admission

// ReadProxyHeader is readProxyHeader.
var ReadProxyHeader = readProxyHeader

// ClientsFor is clientsFor.
var ClientsFor = clientsFor
