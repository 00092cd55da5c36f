package usftp

// PoolOut returns how many bytes of the client's pool are lent.
func PoolOut(c *Client) int64 { return c.conn.Pool().Out() }

// BudgetFree returns how many bytes of the client's budget are free.
func BudgetFree(c *Client) int64 { return 2 * c.conn.Room(0) }

// RemoveTree is RemoveAll of a directory that gives up after most names.
func RemoveTree(c *Client, name string, most int) error { return c.removeTree(name, false, most) }

// ReadDirMost is ReadDir that gives up after most entries.
func ReadDirMost(c *Client, dir string, most int) ([]*File, error) { return c.readDir(dir, most) }

var TypeOfLine = typeOfLine
