package usftp

// PoolOut returns how many bytes of the client's pool are lent.
func PoolOut(c *Client) int64 { return c.conn.Pool().Out() }

// BudgetFree returns how many bytes of the client's budget nobody has taken.
func BudgetFree(c *Client) int64 { return 2 * c.conn.Room(0) }
