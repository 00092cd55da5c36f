package objectfs

// layout determines where the parts of an object lie: the first parts are short, so that small
// files need little memory, and the length doubles every so many parts, so that the largest object
// that S3 allows fits into [MaxParts].
type layout struct {
	first int64 // the length of the first parts
	most  int64 // no part is longer
}

// each is how many parts have the same length; only the greatest length goes on beyond that.
const each = 500

// standard is the layout of uploads. The first parts are as short as S3 allows, since each slow
// upload holds an unfinished part in memory. The longest parts are for files of more than 600 GB.
var standard = layout{first: MinPart, most: 256 * MinPart}

// at returns the index of the part that holds an offset.
func (l layout) at(offset int64) int {
	index, length := 0, l.first
	for length < l.most && offset >= each*length {
		offset -= each * length
		index += each
		length *= 2
	}
	return index + int(offset/length)
}

// span returns the start and the length of a part.
func (l layout) span(index int) (start, length int64) {
	length = l.first
	for length < l.most && index >= each {
		start += each * length
		index -= each
		length *= 2
	}
	return start + int64(index)*length, length
}

// end returns the length of the longest object: one of MaxParts parts.
func (l layout) end() int64 {
	start, _ := l.span(MaxParts)
	return start
}
