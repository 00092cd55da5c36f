package server_test

// What Windows lacks.
func init() {
	lacking["osfs"] = map[string]string{
		"links":           "links take a right, and Wine makes none",
		"attributes":      "there are no permissions, and Wine makes no links",
		"directories":     "there are no permissions",
		"open attributes": "there are no permissions",
		"real path":       "paths are cleaned first, as Windows does: links/.. means nothing else",
		"paths":           "paths are cleaned first, as Windows does",
	}
}
