package postgres

// SelectObjects is what schema.txt lists.
const SelectObjects = selectObjects
