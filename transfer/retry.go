package transfer

// retry tells whether a job that has failed begins anew, or goes on from what its last try has
// left: where its connection was lost and there is another.
func (r *run) retry(err error) bool {
	if r.Reader != nil || r.Writer != nil && r.result.Bytes > 0 && (r.poured == nil || r.hashes()) {
		// what was read is gone, and what was written cannot be told from what is to follow
		return false
	}
	if !r.renew(err, func(e Event) {
		e.Size, e.Bytes, e.Message = r.size, r.result.Bytes, "copying "+r.Source+": "+e.Message
		r.tell(e)
	}) {
		return false
	}
	if r.Direction.toHost() && r.temporary != "" &&
		(r.left == nil || r.left.Temporary != r.temporary) &&
		(r.placing == nil || r.placing.temporary != r.temporary) {
		r.strays = append(r.strays, r.temporary)
	}
	r.reached = r.result.Bytes
	r.retried, r.resumable = true, false
	r.result, r.detail, r.temporary = Result{Target: r.Target}, "", ""
	return true
}

// resumes tells whether what was left is to be gone on from.
func (r *run) resumes() bool { return r.Options.Resume || r.left != nil }
