package tables

// rowID is the column of the identifier in tables whose primary key is one column.
const rowID = 0

// The columns of the sealed tables, in the order of the schema and of the MACs. The
// definition of each table names them by these constants.
const ( // grants
	grantID = iota
	grantParent
	grantHolder
	grantSeq
)

const ( // standings
	standingID = iota
	standingState
	standingSince
	standingSeq
)

const ( // proofs
	proofID = iota
	proofUntil
)

const ( // budgets
	budgetNode = iota
	budgetWhat
	budgetLimit
	budgetSpent
)

const ( // leases
	leaseNode = iota
	leaseWhat
	leaseRun
	leaseAmount
	leaseSettled
)

const ( // questions
	questionID = iota
	questionBinding
	questionState
	questionRun
	questionUntil
	questionOnce
	questionNeeds
	questionAdmin
	questionSeq
)

const ( // votes
	voteQuestion = iota
	voteBy
	voteYes
	voteAdmin
	voteSeq
)

const ( // agents
	agentID = iota
	agentName
	agentVersion
	agentGone
	agentCreated
	agentSeq
	agentLeaf
)

const ( // sessions
	sessionID = iota
	sessionAgent
	sessionParent
	sessionVersion
	sessionGone
	sessionLast
	sessionFiles
	sessionBytes
	sessionRuns
	sessionCreated
	sessionSeq
	sessionLeaf
)

const ( // files
	fileSession = iota
	filePath
	fileVersion
	fileFolder
	fileGone
	fileSize
	fileDigest
	fileAddress
	fileCreated
	fileModified
	fileSeq
	fileLeaf
)

const ( // requests
	requestHolder = iota
	requestKey
	requestPrint
	requestUntil
	requestStatus
	requestPlace
)

const ( // ephemera
	ephemeralKind = iota
	ephemeralKey
	ephemeralOwner
	ephemeralVersion
	ephemeralUntil
	ephemeralData
)

const ( // messages
	messageSession = iota
	messageNumber
	messageRun
	messageAt
	messageSeq
	messageCommit
)

const ( // queue
	queueID = iota
	queueState
	queuePriority
	queueDue
	queueUnique
	queueRoot
	queueRun
	queueLast
	queueToken
	queueSeq
)

const ( // slots
	slotRun = iota
	slotKey
)

const ( // schedules
	scheduleID = iota
	scheduleName
	scheduleVersion
	scheduleState
	scheduleGone
	scheduleNext
	scheduleLast
	scheduleToken
	scheduleSeq
)

const ( // pauses
	pauseName = iota
	pauseState
	pauseSeq
)

const ( // labels
	labelName = iota
	labelKey
	labelRun
	labelCall
	labelSince
	labelSeq
)

const ( // seals
	sealName = iota
	sealVersion
	sealRows
	sealSum
)
