//! The example of docs/inspecting.md.
#![allow(missing_docs)]

use book_examples::IMAGE;

#[test]
fn a_page_says_how_many_ctas_fit() -> Result<(), Box<dyn std::error::Error>> {
    // example: page
    let ptx = IMAGE.ptx("product")?;
    let page = warpipe_inspect::inspect(&ptx, "product", &warpipe_inspect::Tools::find())?;
    assert_eq!(page.occupancy.ctas, Some(1));
    print!("{page}");
    // end
    Ok(())
}
